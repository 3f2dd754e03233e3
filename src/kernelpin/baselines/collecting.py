"""The id of every test there is: a `--collect-only` run, and the pytest plugin it loads."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from kernelpin.baselines.text import BaselineError

if TYPE_CHECKING:
    import pytest

# Names the file that the plugin in the other process writes the ids to.
VARIABLE = "KERNELPIN_COLLECTED"

_seen: list[str] = []


def collect(modules: Collection[str]) -> frozenset[str]:
    """Every test id in the modules that are here, before any deselection; the others have none.

    Runs `python -m pytest --collect-only -q` on them in the current folder. BaselineError: none of
    them is here, or collecting fails.
    """
    there = sorted(module for module in modules if Path(module).is_file())
    if not there:
        if not modules:
            return frozenset()
        raise BaselineError(
            f"none of the {len(modules)} test modules that baselines are of is here "
            f"({min(modules)}, …): run this in the project's root, or give --ids FILE"
        )
    with tempfile.TemporaryDirectory() as scratch:
        found = Path(scratch) / "ids"
        environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", __name__, *there],
            env={**environment, VARIABLE: str(found)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        ids = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    # 5: no test, or all deselected by the configuration's own addopts, and seen before that.
    if done.returncode not in (0, 5):
        tail = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise BaselineError(
            f"collecting failed (pytest's exit code {done.returncode}), nothing is judged:\n{tail}"
        )
    return frozenset(ids)


def pytest_itemcollected(item: pytest.Item) -> None:
    _seen.append(item.nodeid)


def pytest_sessionfinish() -> None:
    Path(os.environ[VARIABLE]).write_text("\n".join(_seen), encoding="utf-8")
