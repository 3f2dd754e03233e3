"""What a session that `kernelpin record` started does beside measuring."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kernelpin.session import Judged
    from kernelpin.workers import Journal, Source


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


def tell_continued(config: pytest.Config, journal: Journal) -> None:
    """Say how many finished processes, of when, are taken instead of measuring."""
    from kernelpin.render import count, listing
    from kernelpin.session import ago

    parts = [
        f"{count(number, 'finished process', 'finished processes')} of a run begun {ago(begun)}"
        for begun, number in journal.continued.items()
    ]
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if parts and reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(
            f"kernelpin: going on from {listing(parts)} per test; "
            "kernelpin record --fresh begins anew"
        )


def forget_used(source: Source, judged: Judged) -> None:
    """Leave in the journal what a session may go on from.

    Not what is of no use. And nothing where all that was measured is stored now, which is not left
    to the command: it may have been killed, and the next one would take the figures for those of
    an interrupted recording.
    """
    from kernelpin.workers import Journal

    if not isinstance(source, Journal):
        return
    source.forget(judged.useless)
    failed = any(judgement.outcome == "failed" for judgement in judged.judgements.values())
    if judged.recorded and not failed:
        source.empty()
