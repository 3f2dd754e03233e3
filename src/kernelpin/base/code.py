"""Make base's own code the one that a worker in the base runs, and find out whether it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import kernelpin
from kernelpin.base.interpreter import UnusableError, located, origins
from kernelpin.base.worktree import Checkout
from kernelpin.workers import Launch

_ROOTS = ("", "src", "python")  # where a repository keeps its packages
_OFF_PATH = "keep the checkout off its path (pythonpath in the ini file, PYTHONPATH, conftest.py)"
NAME_ONE = "name an interpreter where base is installed (--kernelpin-base-python)"


def in_base(launch: Launch, base: Checkout, python: str | None = None) -> Launch:
    """The same worker in the base: its root folder, its ini file, and (`python`) its interpreter.

    An ini file that base does not have is left out, rather than head's taken: its relative paths
    would lead to head's code.
    """
    inifile = base.moved(launch.inifile) if launch.inifile is not None else None
    cwd = base.moved(launch.cwd)
    return replace(
        launch,
        rootdir=base.moved(launch.rootdir),
        cwd=cwd if cwd.is_dir() else base.root,
        inifile=inifile if inifile is not None and inifile.is_file() else None,
        python=launch.python if python is None else located(python),
    )


def base_environment(
    base: Checkout,
    environ: Mapping[str, str],
    *,
    path: Iterable[str] = sys.path,
    modules: Mapping[str, ModuleType] = sys.modules,
) -> dict[str, str]:
    """The environment in which what this process imports from head's checkout comes from base's.

    Every folder of `sys.path` in head's checkout, and every folder that a module of it was imported
    from (an editable installation need not be on `sys.path`), goes to PYTHONPATH as base's. Not
    what base does not have (a virtual environment in the checkout); not the folder of a package
    that is compiled into the checkout, since base's is not, and would hide one that is installed;
    and not this plugin's: both sides are measured by one stopwatch.
    """
    own = Path(kernelpin.__file__).resolve().parents[1]
    built = {root for root, _ in _built(base, modules).values()}
    given = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    wanted: dict[str, None] = {}
    for folder in [*map(Path, path), *(root for _, root in _imported(base, modules))]:
        moved = base.moved(folder)
        place = folder.resolve()
        if moved != folder and place != own and place not in built and moved.is_dir():
            wanted[str(moved)] = None
    for folder in map(Path, given):
        place = folder.resolve()
        if place not in built:
            wanted[str(folder if place == own else base.moved(folder))] = None
    return {**environ, "PYTHONPATH": os.pathsep.join(wanted)}


def foreign_code(
    base: Checkout,
    launch: Launch,
    environ: Mapping[str, str],
    *,
    modules: Mapping[str, ModuleType] = sys.modules,
) -> str | None:
    """Why a worker in the base would not run base's code, or could not run at all; None: it would.

    `launch` and `environ` are base's. Asked for every top-level module that this process imported
    and that base has too: from head's checkout, or as it was installed.
    """
    folders = {name: base.moved(root) for name, root in _imported(base, modules)}
    folders |= _installed(base, modules)
    built = _built(base, modules)
    try:
        found = origins(launch, environ, folders)
    except UnusableError as error:
        return str(error)
    for name, origin in found.items():
        if origin is None:
            if name in built:
                return _unbuilt(built[name][1], launch, f"has no {name}: install base there")
            continue
        place = Path(origin)
        is_bases = place.is_relative_to(base.root)
        # Not what lies in a virtual environment in the checkout.
        is_heads = base.moved(place) != place and base.moved(place).exists()
        if (is_heads or is_bases) and name in built:
            return _unbuilt(built[name][1], launch, f"would run it from {origin}: {_OFF_PATH}")
        if is_heads:
            return (
                f"base would run head's {name} ({origin}): let pytest find it in the checkout "
                f"(pythonpath in its ini file), or {NAME_ONE}"
            )
        if not is_bases and _is_installed_head(base, name, place, folders[name], modules):
            return f"base would run head's {name} as it is installed ({origin}): {NAME_ONE}"
    return None


def _unbuilt(compiled: Path, launch: Launch, instead: str) -> str:
    """A package of head's is compiled: where base's would be found `instead` of such a one."""
    what = f"{compiled} is compiled into head's checkout, and base's tree is not"
    if launch.python == sys.executable:
        return f"{what}: {NAME_ONE}"
    return f"{what}, but base's interpreter {launch.python} {instead}"


def _is_installed_head(
    base: Checkout,
    name: str,
    place: Path,
    folder: Path,
    modules: Mapping[str, ModuleType],
) -> bool:
    """Whether what is installed at `place` is head's: the very file, or what head changed in it."""
    file = getattr(modules.get(name), "__file__", None)
    if file is not None and Path(file).resolve() == place.resolve():
        return True
    if place.name != "__init__.py":
        sources = [(folder / f"{name}.py", place)]
    else:
        package = folder / name
        sources = [(it, place.parent / it.relative_to(package)) for it in package.rglob("*.py")]
    for of_base, installed in sources:
        of_head = base.head_root / of_base.relative_to(base.root)
        if not (of_base.is_file() and of_head.is_file() and installed.is_file()):
            continue
        changed = of_head.read_bytes()
        if changed != of_base.read_bytes() and changed == installed.read_bytes():
            return True
    return False


def _files(modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, Path]]:
    for name, module in list(modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and name.split(".")[0] not in ("__main__", "kernelpin"):
            yield name, Path(file)


def _imported(base: Checkout, modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, Path]]:
    """The top-level modules that come from head's checkout, each with the folder it is found in."""
    for name, place in _files(modules):
        if "." not in name and base.moved(place) != place and base.moved(place).is_file():
            yield name, place.parent.parent if place.name == "__init__.py" else place.parent


def _installed(base: Checkout, modules: Mapping[str, ModuleType]) -> dict[str, Path]:
    """The top-level modules that come from elsewhere, each with the folder where base has it."""
    found: dict[str, Path] = {}
    for name, place in _files(modules):
        ours = base.moved(place) != place and base.moved(place).is_file()
        if "." in name or ours or name in sys.stdlib_module_names:
            continue
        for root in (base.root / folder for folder in _ROOTS):
            if (root / name / "__init__.py").is_file() or (root / f"{name}.py").is_file():
                found.setdefault(name, root)
    return found


def _built(base: Checkout, modules: Mapping[str, ModuleType]) -> dict[str, tuple[Path, Path]]:
    """The packages that base has too and that are compiled into head's checkout alone.

    Each with the folder it is found in, and a compiled module of it, from the checkout's top.
    """
    built: dict[str, tuple[Path, Path]] = {}
    for name, place in _files(modules):
        if not place.name.endswith(tuple(EXTENSION_SUFFIXES)):
            continue
        moved = base.moved(place)
        package, *inner = name.split(".")
        if moved == place or moved.exists() or not inner:
            continue
        depth = len(inner) + place.name.startswith("__init__.")
        root = place.resolve().parents[depth]
        if (base.moved(root) / package).is_dir():
            built[package] = (root, moved.relative_to(base.root))
    return built
