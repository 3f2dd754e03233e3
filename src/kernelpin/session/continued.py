"""A recording that goes on after an interruption: whether then and now measured the same code."""

from __future__ import annotations

import time

from kernelpin.render import count, format_change, format_us
from kernelpin.session.evidence import Evidence
from kernelpin.verdict import MIN_DIFFERENCE_US, STORED_SAME_CARD, disagreement


def why_mixed(test: Evidence) -> str | None:
    """Why the figures of several sessions are not stored as one recording; None: they may be."""
    if test.metric not in ("device_us", "kernel_us"):
        return None  # counts are exact: those that differ are refused as they are
    by_session: dict[float, list[float]] = {}
    for result in test.results:
        if result.samples is not None and result.samples.reason is None:
            by_session.setdefault(result.begun, []).append(result.samples.figure)
    limit = STORED_SAME_CARD.limit if test.case.limit is None else test.case.limit
    sessions = list(by_session.items())
    found = disagreement(
        [figures for _, figures in sessions], limit, min_difference=MIN_DIFFERENCE_US
    )
    if found is None:
        return None
    i, j, ratio = found
    return (
        f"{_told(*sessions[i])} and {_told(*sessions[j])}: {format_change(ratio)}, allowed are "
        f"{100 * limit:.3g} % either way\n"
        "The code or the machine may have changed in between, so that nothing of this test is "
        "stored. The same command measures it anew; with --fresh it measures all others anew too."
    )


def _told(begun: float, figures: list[float]) -> str:
    """`3 processes of a run begun 14 minutes ago measured 41.2 µs`."""
    processes = count(len(figures), "process", "processes")
    when = f"a run begun {ago(begun)}" if begun else "this run"
    return f"{processes} of {when} measured {format_us(sorted(figures)[len(figures) // 2])}"


def ago(begun: float) -> str:
    """`40 seconds ago`, `14 minutes ago`, `3 hours ago`."""
    seconds = max(1, round(time.time() - begun))
    for unit, length in (("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}s ago"
    return f"{count(seconds, 'second')} ago"
