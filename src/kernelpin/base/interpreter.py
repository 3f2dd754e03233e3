"""Ask an interpreter, before any worker is started with it, what it would import and from where."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from kernelpin.workers import Launch

DISTRIBUTION = "pytest-kernelpin"
_PATIENCE_S = 60
# Finds without importing: no torch is loaded for the question.
_ASK = """
import importlib.metadata, importlib.util, json, sys
def origin(name):
    try:
        spec = importlib.util.find_spec(name)
    except Exception:
        return None
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
names = sys.argv[2:]
print(json.dumps([version(sys.argv[1]), {name: origin(name) for name in names}]))
"""
_NEEDED = {"pytest": "pytest", "kernelpin": DISTRIBUTION}


class UnusableError(Exception):
    """Why no worker can be started with an interpreter, and what to do."""


def located(python: str) -> str:
    """An interpreter as it is found from here: workers start elsewhere, in base's folder.

    Its links stay, since by where it lies an interpreter knows its virtual environment. What is
    not found stays as it was named.
    """
    found = python if Path(python).is_file() else shutil.which(python)
    return python if found is None else os.path.abspath(found)


def origins(
    launch: Launch, environ: Mapping[str, str], names: Iterable[str]
) -> dict[str, str | None]:
    """Where a worker finds each of these modules, None where it does not; UnusableError: why none.

    It must have pytest, and this kernelpin: both sides are measured by one stopwatch.
    """
    python = launch.python
    try:
        done = subprocess.run(
            [python, *launch.flags, "-c", _ASK, DISTRIBUTION, *_NEEDED, *names],
            cwd=launch.cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except OSError as error:
        why = error.strerror or str(error)
        raise UnusableError(f"base's interpreter {python} could not be run: {why}") from None
    except subprocess.TimeoutExpired:
        raise UnusableError(
            f"base's interpreter {python} gave no answer in {_PATIENCE_S} s"
        ) from None
    version, found = _answer(python, done)
    for module, distribution in _NEEDED.items():
        if found.pop(module) is None:
            raise UnusableError(
                f"base's interpreter {python} has no {distribution}: install it there, beside base"
            )
    if version != (own := _own_version()):
        raise UnusableError(
            f"base's interpreter {python} has {DISTRIBUTION} {version}, head's {own}: install the "
            "same one there, since one stopwatch must measure both sides"
        )
    return found


def _answer(
    python: str, done: subprocess.CompletedProcess[str]
) -> tuple[str | None, dict[str, str | None]]:
    lines = done.stdout.strip().splitlines()
    try:
        version, found = json.loads(lines[-1])  # what a start-up file prints stands before
        return version, dict(found)
    except (ValueError, TypeError, IndexError):
        said = done.stderr.strip().splitlines() or lines or ["it said nothing"]
        raise UnusableError(f"base's interpreter {python} failed: {said[-1]}") from None


def _own_version() -> str | None:
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return None
