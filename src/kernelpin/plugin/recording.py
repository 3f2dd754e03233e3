"""What a session that `kernelpin record` started does beside measuring."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernelpin.session import Judged
    from kernelpin.workers import Source


def be_alone(config: pytest.Config) -> None:
    """Until pytest ends, be the only one that measures for this journal; UsageError."""
    path: Path | None = config.getoption("--kernelpin-journal")
    if path is None:
        return
    from kernelpin.workers import InUseError, alone_with

    with contextlib.ExitStack() as held:
        try:
            held.enter_context(alone_with(config.invocation_params.dir / path))
        except InUseError as error:
            raise pytest.UsageError(str(error)) from None
        config.add_cleanup(held.pop_all().close)


def forget_stored(source: Source, judged: Judged) -> None:
    """Empty the journal where all that was measured is stored now.

    Not left to the command: it may have been killed, and the next one would take the figures for
    those of an interrupted recording.
    """
    from kernelpin.workers import Journal

    failed = any(judgement.outcome == "failed" for judgement in judged.judgements.values())
    if isinstance(source, Journal) and judged.recorded and not failed:
        source.empty()
