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
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import msgspec

from kernelpin.base.code import NAME_ONE
from kernelpin.base.git import Git
from kernelpin.base.worktree import Checkout

VARIABLE = "KERNELPIN_HEADS_CODE"
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_NOT_OURS = frozenset({"__main__", "kernelpin", *sys.stdlib_module_names})
# A change of one of these changes what is compiled.
_COMPILED = frozenset(
    (
        *(".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".hip", ".pyx", ".pxd"),
        *(".rs", ".f90", ".cmake", ".toml", ".cfg"),
    )
)
_BUILDS = frozenset({"setup.py", "CMakeLists.txt", "Makefile"})


class HeadsCode(msgspec.Struct, frozen=True):
    """What is head's: its checkout, and the Python files that it changed, with their hashes.

    `changed`: from a file's name to (path from the checkout's top, SHA-256 of head's). `rebuilt`:
    whether head changed what compiled modules are made of.
    """

    head: str
    base: str
    changed: dict[str, list[tuple[str, str]]]
    rebuilt: bool


def describe(base: Checkout, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variable by which a worker in the base knows head's code; writes a file."""
    git = Git(base.head_root, environ)
    listed = git("diff", "--name-only", "--no-renames", "-z", base.commit, "HEAD")
    changed: dict[str, list[tuple[str, str]]] = defaultdict(list)
    rebuilt = False
    for name in filter(None, listed.split("\0")):
        file = base.head_root / name
        rebuilt |= file.suffix in _COMPILED or file.name in _BUILDS or file.is_dir()  # a submodule
        if file.suffix == ".py" and file.is_file():
            changed[file.name].append((name, _sha(file)))
    told = HeadsCode(str(base.head_root), str(base.root), dict(changed), rebuilt)
    path = base.root.parent / "head.json"
    path.write_bytes(msgspec.json.encode(told))
    return {VARIABLE: str(path)}


class Loaded:
    """Looks through the modules of this process for one that is head's."""

    def __init__(self, told: HeadsCode) -> None:
        self._told = told
        self._head, self._base = Path(told.head), Path(told.base)
        self._seen: set[tuple[str, str]] = set()
        self._targets: dict[Path, bool] = {}
        self._built = frozenset(_installed_from(self._head)) if told.rebuilt else frozenset()
        self._found: str | None = None

    def foreign(self, modules: Mapping[str, ModuleType] = sys.modules) -> str | None:
        """Why what this process ran is not base's alone; None: it is, as far as it can be told."""
        for name, module in list(modules.items()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or (name, file) in self._seen:
                continue
            self._seen.add((name, file))
            if self._found is None and name.partition(".")[0] not in _NOT_OURS:
                self._found = self._why(name, Path(file).resolve())
        return self._found

    def _why(self, name: str, place: Path) -> str | None:
        if place.is_relative_to(self._base):
            return None
        if place.is_relative_to(self._head) and not self._is_installed(place):
            return f"base ran head's {name} ({place}): {NAME_ONE}"
        if str(place) in self._built and place.name.endswith(tuple(EXTENSION_SUFFIXES)):
            return f"base ran {name} as head compiled it ({place}): {NAME_ONE}"
        for path, sha in self._told.changed.get(place.name, ()):
            if place.parts[-2:] == (self._head / path).parts[-2:] and _sha(place) == sha:
                return f"base ran head's {name} as it is installed ({place}): {NAME_ONE}"
        return None

    def _is_installed(self, place: Path) -> bool:
        """Whether it lies in a virtual environment, or where else pip installs to, in the checkout.

        That is neither side's.
        """
        for folder in place.parents:
            if folder not in self._targets:
                named = folder.name in _INSTALLED or (folder / "pyvenv.cfg").is_file()
                self._targets[folder] = named or any(folder.glob("*.dist-info"))
            if self._targets[folder]:
                return True
            if folder == self._head:
                break
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
        if url.scheme == "file" and Path(unquote(url.path)).resolve().is_relative_to(checkout):
            yield from (str(Path(str(found.locate_file(it))).resolve()) for it in found.files or ())


def _sha(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
