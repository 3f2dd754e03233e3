"""The command line and environment of a worker: the user's own, less what only the parent needs."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Options that a worker must not repeat: what writes the parent's files, stops or repeats tests,
# selects them (a worker is told which), measures coverage, or waits for a keyboard.
_FLAGS = _words(
    """-x --exitfirst -d -f --looponfail --loadscope-reorder --no-loadscope-reorder
    --lf --last-failed --ff --failed-first --nf --new-first --sw --stepwise --sw-skip
    --stepwise-skip --sw-reset --stepwise-reset --cache-clear --co --collect-only --pyargs
    --pdb --trace --setup-only --setup-show --setup-plan --force-flaky --no-flaky-report
    --forked --boxed --no-cov --no-cov-on-fail --cov-append --cov-branch --cov-reset
    --self-contained-html --benchmark-only --benchmark-skip --benchmark-disable
    --benchmark-enable --benchmark-disable-gc --benchmark-autosave --benchmark-save-data
    --benchmark-quiet --benchmark-verbose --kernelpin-require-gpu --kernelpin-record
    --kernelpin-base-all --kernelpin-add"""
)
_WITH_VALUE = _words(
    """-n --numprocesses --maxprocesses --max-worker-restart --dist --tx --px --rsyncdir
    --rsyncignore --testrunuid --maxschedchunk --maxfail --lfnf --last-failed-no-failures
    --reruns --reruns-delay --only-rerun --rerun-except --retries --retry-delay --max-runs
    --min-passes -k -m --deselect --ignore --ignore-glob -c --config-file --rootdir --basetemp
    --junitxml --junit-xml --junitprefix --junit-prefix --report-log --html --json-report-file
    --log-file --pastebin --pdbcls --cov-report --cov-config --cov-fail-under --cov-context"""
)
_OPTIONAL_VALUE = _words("--cache-show --cov --debug")
_VALUE_PREFIXES = ("--benchmark-", "--kernelpin-")
_SHORT_WITH_VALUE = ("-n", "-k", "-m", "-c")
_SHORT_FLAGS = re.compile(r"-[vqsxldf]{2,}")

_ENVIRONMENT = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "GITHUB_STEP_SUMMARY")
# Stands for "$" where pytest expands variables, and has no other way to say one.
_DOLLAR = "KERNELPIN_DOLLAR"
_ENVIRONMENT_PREFIXES = ("PYTEST_XDIST", "COV_CORE_", "COVERAGE_")


@dataclass(frozen=True, slots=True)
class Launch:
    """How a worker is started; `dataclasses.replace` it to measure another tree or interpreter."""

    rootdir: Path
    cwd: Path
    inifile: Path | None = None
    python: str = sys.executable
    flags: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    def command(self, order: Path, nodeids: Iterable[str]) -> list[str]:
        """The command that carries out the order file; what it leaves behind lies beside that."""
        # Without one, pytest would look for an ini file above the files it is given.
        config = ["-c", os.devnull, f"--confcutdir={self.rootdir}"]
        if self.inifile is not None:
            config = ["-c", str(self.inifile)]
        # Whole files: which of their tests to run stands in the order, where no node id is too
        # odd or too long for a command line.
        cacheless = any("no:cacheprovider" in argument for argument in self.arguments)
        files = dict.fromkeys(str(self.rootdir / nodeid.split("::")[0]) for nodeid in nodeids)
        return [
            *(self.python, *self.flags, "-m", "pytest"),
            *config,
            *self.arguments,
            f"--rootdir={_literal(self.rootdir)}",
            f"--basetemp={order.parent / 'tmp'}",
            *(
                []
                if cacheless
                else [f"--override-ini=cache_dir={_literal(order.parent / 'cache')}"]
            ),
            "--override-ini=addopts=",
            # The worker's output is a file: a crash must not take what was captured with it.
            "--capture=no",
            "--color=no",
            "--no-header",
            "--no-summary",
            f"--kernelpin-worker={order}",
            *files,
        ]


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The parent's environment, less what would make a worker write, count or distribute."""
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _ENVIRONMENT and not name.startswith(_ENVIRONMENT_PREFIXES)
    }
    # What a test printed before it crashed would else be lost with the process's buffer.
    return kept | {"PYTHONUNBUFFERED": "1", _DOLLAR: "$"}


def _literal(path: Path) -> str:
    """A path as it stands, for an option in which pytest expands variables."""
    return str(path).replace("$", f"${{{_DOLLAR}}}")


def forwarded(arguments: Sequence[str], positional: Sequence[str]) -> tuple[str, ...]:
    """The options among pytest's arguments that a worker needs: all that are not listed above.

    `positional`: what pytest took for files and node ids (`config.option.file_or_dir`). A value
    of an unknown option looks like one of them; it stays where it follows an option.
    """
    tokens = list(_expanded(arguments))
    surplus = Counter(tokens) - Counter(positional)
    kept: list[str] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        has_value = following is not None and not following.startswith("-")
        name, _, _ = token.partition("=")
        index += 1
        if token == "--":
            break
        if not token.startswith("-"):
            if token not in positional:
                kept.append(token)
            elif surplus[token] > 0 and kept and kept[-1].startswith("-"):
                surplus[token] -= 1
                kept.append(token)
        elif name in _FLAGS:
            continue
        elif name in _WITH_VALUE or name.startswith(_VALUE_PREFIXES):
            index += token == name and has_value
        elif name in _OPTIONAL_VALUE:
            index += token == name and has_value and following not in positional
        elif token.startswith(_SHORT_WITH_VALUE) and not token.startswith("--"):
            continue
        elif _SHORT_FLAGS.fullmatch(token):
            rest = re.sub("[xdf]", "", token)
            kept += [rest] if rest != "-" else []
        else:
            kept.append(token)
    return tuple(kept)


def _expanded(arguments: Iterable[str]) -> Iterable[str]:
    """`@file` stands for the file's lines, as pytest has it."""
    for argument in arguments:
        if argument.startswith("@") and Path(argument[1:]).is_file():
            yield from Path(argument[1:]).read_text(encoding="utf-8").splitlines()
        else:
            yield argument
