"""Make base's own code the one that a worker in the base runs, and find out whether it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import kernelpin
from kernelpin.base.worktree import Checkout
from kernelpin.workers import Launch

# Finds without importing: no torch is loaded for the question.
_ASK = """
import importlib.util, json, sys
def origin(name):
    try:
        spec = importlib.util.find_spec(name)
    except Exception:
        return None
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)
print(json.dumps({name: origin(name) for name in sys.argv[1:]}))
"""


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
        python=python or launch.python,
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
    what base does not have (a virtual environment in the checkout), and not this plugin's: both
    sides are measured by one stopwatch.
    """
    own = Path(kernelpin.__file__).resolve().parents[1]
    given = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    wanted: dict[str, None] = {}
    for folder in [*map(Path, path), *(root for _, root in _imported(base, modules))]:
        moved = base.moved(folder)
        if moved != folder and folder.resolve() != own and moved.is_dir():
            wanted[str(moved)] = None
    for entry in given:
        wanted[str(base.moved(Path(entry)))] = None
    return {**environ, "PYTHONPATH": os.pathsep.join(wanted)}


def foreign_code(
    base: Checkout,
    launch: Launch,
    environ: Mapping[str, str],
    *,
    modules: Mapping[str, ModuleType] = sys.modules,
) -> str | None:
    """Why a worker in the base would run head's code all the same, or None.

    `launch` and `environ` are base's. Asked for every top-level module that this process imported
    from head's checkout and that base has too.
    """
    names = [name for name, root in _imported(base, modules) if base.moved(root).is_dir()]
    if not names:
        return None
    try:
        done = subprocess.run(
            [launch.python, "-c", _ASK, *names],
            cwd=launch.cwd,
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        found: dict[str, str | None] = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"base's interpreter {launch.python} could not be run: {error}"
    except ValueError:
        said = done.stderr.strip().splitlines() or ["nothing"]
        return f"base's interpreter {launch.python} failed: {said[-1]}"
    for name, origin in found.items():
        if origin is not None and base.moved(Path(origin)) != Path(origin):
            return (
                f"base would run head's {name} ({origin}): let pytest find it in the checkout "
                "(pythonpath in its ini file), or name an interpreter where base is installed "
                "(--kernelpin-base-python)"
            )
    return None


def _imported(base: Checkout, modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, Path]]:
    """The top-level modules that come from head's checkout, each with the folder it is found in."""
    for name, module in list(modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or name in ("__main__", "kernelpin") or not isinstance(file, str):
            continue
        place = Path(file)
        if base.moved(place) == place or not base.moved(place).is_file():
            continue
        yield name, place.parent.parent if place.name == "__init__.py" else place.parent
