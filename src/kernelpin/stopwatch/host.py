"""Host time of two callables, as ratios of interleaved runs.

Host time on a shared machine is worth comparing only that way. Few calls lie between two
synchronisations: a full launch queue makes the host wait, and the clock would measure the GPU.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from statistics import median

WARM_CALLS = 10
MOST_CALLS_BEFORE_SYNC = 8
BATCH_NS = 1_000_000


def ratios(
    a: Callable[[], object],
    b: Callable[[], object],
    *,
    rounds: int,
    clock_ns: Callable[[], int],
    synchronize: Callable[[], object] | None,
) -> tuple[tuple[float, ...], int]:
    """Return a's host time over b's, one ratio a round (a b b a or b a a b), and calls a run.

    `synchronize` waits for the GPU outside what is timed; None where the host does the work.
    """
    wait = synchronize or (lambda: None)
    for call in (a, b):
        for _ in range(WARM_CALLS):
            call()
        wait()
    most = MOST_CALLS_BEFORE_SYNC if synchronize else BATCH_NS
    with _no_collector():

        def run(call: Callable[[], object], calls: int) -> int:
            wait()
            started = clock_ns()
            for _ in range(calls):
                call()
            return max(clock_ns() - started, 1)

        slowest = max(median(run(call, 1) for _ in range(5)) for call in (a, b))
        calls = max(1, min(ceil(BATCH_NS / slowest), most))
        values = []
        for number in range(rounds):
            order = (a, b, b, a) if number % 2 == 0 else (b, a, a, b)  # a drift cancels
            ns = [run(call, calls) for call in order]
            outer, inner = min(ns[0], ns[3]), min(ns[1], ns[2])  # what interrupts only adds
            values.append(outer / inner if number % 2 == 0 else inner / outer)
        wait()
    return tuple(values), calls


@contextmanager
def _no_collector() -> Iterator[None]:
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
