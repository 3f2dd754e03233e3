"""The base that suspects are compared with: checked out when the first of them asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelpin.plugin.launch import launch_of
from kernelpin.plugin.settings import (
    MERGE_BASE,
    base_ref,
    baselines_folder,
    ci_variable,
    report_folder,
)

if TYPE_CHECKING:
    from kernelpin.base import Unavailable
    from kernelpin.plugin.progress import Line
    from kernelpin.session import Base, Bases
    from kernelpin.workers import Budget


def bases_of(config: pytest.Config, budget: Budget, line: Line) -> Bases | None:
    """What gives the base for as long as it is needed; None where none is to be compared with."""
    ref = base_ref(config)
    if ref is None:
        return None
    replay: Path | None = config.getoption("--kernelpin-replay")
    if replay is not None:
        played = replay.with_suffix(f".base{replay.suffix}")
        return (lambda: _played(ref, played)) if played.exists() else None
    return lambda: _checked_out(config, ref, budget, line)


@contextmanager
def _played(ref: str, path: Path) -> Iterator[Base | Unavailable]:
    """Base's recorded results, beside those of head."""
    from kernelpin.session import Base
    from kernelpin.workers import Replay

    yield Base(ref, Replay(path))


@contextmanager
def _checked_out(
    config: pytest.Config, ref: str, budget: Budget, line: Line
) -> Iterator[Base | Unavailable]:
    from kernelpin.base import (
        GitError,
        Unavailable,
        base_environment,
        checkout,
        describe,
        foreign_code,
        in_base,
    )
    from kernelpin.session import Base
    from kernelpin.workers import Fleet

    besides = [folder for folder in (baselines_folder(config), report_folder(config)) if folder]
    wanted = None if ref == MERGE_BASE else ref
    python: Path | None = config.getoption("--kernelpin-base-python")
    with checkout(config.rootpath, wanted, besides=besides) as base:
        if isinstance(base, Unavailable):
            yield base
            return
        if base.is_head and ci_variable() is not None:
            yield Unavailable(f"{base.ref} is HEAD itself: there is no change to compare")
            return
        launch = in_base(launch_of(config), base, None if python is None else str(python))
        environ = base_environment(base, os.environ)
        if (why := foreign_code(base, launch, environ)) is not None:
            yield Unavailable(why)
            return
        try:
            environ |= describe(base)
        except (GitError, OSError) as error:
            yield Unavailable(f"head could not be described to its base: {error}")
            return
        fleet = Fleet(launch, budget, environ=environ, progress=line.tell)
        try:
            yield Base(base.ref, fleet, launch.rootdir)
        except BaseException:
            fleet.close(at_once=True)
            raise
        fleet.close()  # before the folder goes that they were started in
