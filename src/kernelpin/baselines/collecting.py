"""The id of every test there is: a `--collect-only` run, and the pytest plugin it loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernelpin.baselines.text import BaselineError

if TYPE_CHECKING:
    import pytest

# Names the file that the plugin in the other process writes what it saw to.
VARIABLE = "KERNELPIN_COLLECTED"

_ids: list[str] = []
_modules: list[str] = []
_skipped: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Collected:
    """The tests that there are, as far as collecting them here tells.

    `modules`: those that were looked into to their end; `skipped`: the node ids of folders, modules
    and classes that skipped while they were collected, and why.
    """

    ids: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    skipped: Mapping[str, str] = field(default_factory=dict)

    def hidden(self, test_id: str) -> str | None:
        """Why nobody knows whether there is this test, in a file that is here; None: it is known.

        `test_x.py was skipped while it was collected: could not import 'liger_kernel'`.
        """
        for node, why in self.skipped.items():
            if node in ("", ".") or test_id.startswith((f"{node}::", f"{node}/")):
                return f"{node or '.'} was skipped while it was collected: {why}"
        module = test_id.split("::", 1)[0]
        return None if module in self.modules else f"pytest collected nothing of {module}"


def collect(modules: Collection[str]) -> Collected:
    """Every test in the modules that are here, before any deselection; the others have none.

    Runs `python -m pytest --collect-only -q` on them in the current folder. BaselineError: none of
    them is here, or collecting fails.
    """
    there = sorted(module for module in modules if Path(module).is_file())
    if not there:
        if not modules:
            return Collected()
        raise BaselineError(
            f"no test module that baselines are of is here ({min(modules)}, …): run this in the "
            "project's root, or give --ids FILE"
        )
    with tempfile.TemporaryDirectory() as scratch:
        found = Path(scratch) / "collected.json"
        # With an empty cache `--lf` and its kin in the project's addopts leave no file out, and the
        # project's own cache stays as the last run of the tests left it. `-p no:cacheprovider`
        # would make an unknown option of an `--lf` that stands there, and so an error.
        options = ["-o", f"cache_dir={Path(scratch) / 'cache'}", "-p", __name__]
        environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, *there],
            env={**environment, VARIABLE: str(found)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        seen = json.loads(found.read_bytes()) if found.exists() else None
    # 5: no test, or all deselected by the configuration's own addopts, and seen before that.
    if done.returncode not in (0, 5) or seen is None:
        tail = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise BaselineError(
            f"collecting failed (pytest's exit code {done.returncode}), nothing is judged:\n{tail}"
        )
    return Collected(frozenset(seen["ids"]), frozenset(seen["modules"]), seen["skipped"])


def pytest_itemcollected(item: pytest.Item) -> None:
    _ids.append(item.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped[report.nodeid] = skip_reason(report)
    elif report.passed:
        _modules.append(report.nodeid)


def pytest_sessionfinish() -> None:
    seen = {"ids": _ids, "modules": _modules, "skipped": _skipped}
    Path(os.environ[VARIABLE]).write_text(json.dumps(seen), encoding="ascii")


def skip_reason(report: pytest.CollectReport) -> str:
    """Why a module was skipped while it was collected, as `pytest.skip` was told, on one line."""
    told = report.longrepr
    reason = told[-1] if isinstance(told, (tuple, list)) else told
    return " ".join(str(reason).removeprefix("Skipped: ").split()) or "no reason given"
