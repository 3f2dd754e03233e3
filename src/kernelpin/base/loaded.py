"""Which code a worker in the base really ran: told by the modules it has imported in the end.

What pytest will import is asked beforehand (`foreign_code`), as far as that can be known then. A
package that only a test's body imports, or that a conftest finds by a path of its own, shows here.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path, PurePosixPath
from types import ModuleType
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec

from kernelpin.base.code import NAME_ONE
from kernelpin.base.git import Git
from kernelpin.base.worktree import Checkout

VARIABLE = "KERNELPIN_HEADS_CODE"
_NOT_OURS = frozenset({"__main__", "kernelpin", *sys.stdlib_module_names})
_COMPILED = tuple(EXTENSION_SUFFIXES)
_EMPTY = hashlib.sha256(b"").hexdigest()
_INSTALLED = frozenset({"site-packages", "dist-packages"})
# A change of these alone compiles nothing anew.
_PROSE = frozenset({".md", ".rst", ".txt"})
_BESIDE = frozenset({"tests", "test", "docs", "doc", "baselines", "perf_tests", ".github"})


class HeadsCode(msgspec.Struct, frozen=True):
    """What is head's: its checkout, and what git has there.

    `tracked`: its Python files and compiled modules, from its top, those of submodules too.
    `changed`: the Python files that it changed, with the SHA-256 of its own. `rebuilt`: whether it
    may have changed what compiled modules are made of. `prefix`: head's environment.
    """

    head: str
    base: str
    tracked: frozenset[str]
    changed: dict[str, str]
    rebuilt: bool
    prefix: str


def describe(base: Checkout, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variable by which a worker in the base knows head's code; writes a file.

    Raises GitError.
    """
    git = Git(base.head_root, environ)

    def listed(*arguments: str) -> list[PurePosixPath]:
        return [PurePosixPath(name) for name in git(*arguments).split("\0") if name]

    tracked = listed("ls-files", "-z", "--recurse-submodules")
    between = ("-z", base.commit, "HEAD")
    touched = listed("diff", "--name-only", "--no-renames", *between)
    # What was only moved is base's as well.
    changed = listed("diff", "--name-only", "--diff-filter=AM", "-M100%", *between)
    told = HeadsCode(
        head=str(base.head_root),
        base=str(base.root),
        tracked=frozenset(str(it) for it in tracked if it.name.endswith((".py", *_COMPILED))),
        changed={
            str(it): _sha(base.head_root / it)
            for it in changed
            if it.suffix == ".py" and (base.head_root / it).is_file()
        },
        rebuilt=any(it.suffix not in _PROSE and not _BESIDE & {*it.parts} for it in touched),
        prefix=sys.prefix,
    )
    path = base.root.parent / "head.json"
    path.write_bytes(msgspec.json.encode(told))
    return {VARIABLE: str(path)}


class Loaded:
    """Looks through the modules of this process for one that is head's."""

    def __init__(self, told: HeadsCode) -> None:
        self._told = told
        self._head, self._base = Path(told.head), Path(told.base)
        self._seen: set[tuple[str, str]] = set()
        self._found: str | None = None
        has_own = sys.prefix != told.prefix
        self._advice = "install base there, and not head" if has_own else NAME_ONE
        # Into an environment of its own base may well have been installed from the same checkout.
        looks = told.rebuilt and not has_own
        self._built = frozenset(_installed_from(self._head)) if looks else frozenset()

    def foreign(self, modules: Mapping[str, ModuleType] = sys.modules) -> str | None:
        """Why what this process ran is not base's alone; None: it is, as far as it can be told."""
        for name, module in list(modules.items()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or (name, file) in self._seen:
                continue
            self._seen.add((name, file))
            if self._found is None and name.partition(".")[0] not in _NOT_OURS:
                place = Path(file).resolve()
                if what := self._what(name, place):
                    self._found = f"base ran {what} ({place}): {self._advice}"
        return self._found

    def _what(self, name: str, place: Path) -> str | None:
        """What of head's this is, if it is."""
        if place.is_relative_to(self._base):
            return None
        is_compiled = place.name.endswith(_COMPILED)
        if place.is_relative_to(self._head):
            if place.relative_to(self._head).as_posix() in self._told.tracked:
                return f"head's {name}"
            if is_compiled and self._told.rebuilt and not self._is_installed(place):
                return f"{name} as head compiled it"
        if is_compiled:
            return f"{name} as head compiled it" if str(place) in self._built else None
        # An empty file is no code, and each is like another.
        path = name.replace(".", "/")
        for of_head, sha in self._told.changed.items():
            ends = f"/{of_head}".endswith((f"/{path}.py", f"/{path}/__init__.py"))
            if ends and sha != _EMPTY and place.is_file() and _sha(place) == sha:
                return f"head's {name} as it is installed"
        return None

    def _is_installed(self, place: Path) -> bool:
        """Whether it lies in an environment in the checkout, which is neither side's."""
        for folder in place.parents:
            if folder == self._head:
                break
            marks = ("pyvenv.cfg", "conda-meta")
            if folder.name in _INSTALLED or any((folder / mark).exists() for mark in marks):
                return True
            if any(folder.glob("*.dist-info")):
                return True
        return False


def loaded(environ: Mapping[str, str] = os.environ) -> Loaded | None:
    """What to ask in a worker of the base; None in any other process."""
    path = environ.get(VARIABLE)
    if not path:
        return None
    return Loaded(msgspec.json.decode(Path(path).read_bytes(), type=HeadsCode))


def _installed_from(checkout: Path) -> Iterable[str]:
    """The files of the distributions that were installed from this checkout."""
    for found in importlib.metadata.distributions():
        text = found.read_text("direct_url.json")
        if text is None:
            continue
        url = urlsplit(json.loads(text).get("url", ""))
        if url.scheme == "file" and Path(url2pathname(url.path)).resolve().is_relative_to(checkout):
            yield from (str(Path(str(found.locate_file(it))).resolve()) for it in found.files or ())


def _sha(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
