"""How samples are taken: how many calls each holds, when the GPU is warm, which blocks count.

Nothing here knows CUDA: a `Bench` gives work, a clock and the GPU's state. The figures are those
that brought the noise between processes under 0.5 %, where anything did (docs/measured.md): at
least 2.5 ms of GPU work a sample, calibrated on device time, and 5 ms pauses that keep the card off
its power cap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean, median, stdev, variance
from typing import Protocol

from kernelpin.machine import State
from kernelpin.stopwatch.samples import MeasureError

MAX_CALLS = 16_384
BLOCKS = 8
BLOCKS_OF_LONG = 4
LONG_MS = 50.0  # a sample: every replay counts, and of many kernels no place in memory suits all
MORE_BLOCKS = 16  # where those show that the place in memory matters
FEW_IN_BLOCK = 3  # samples, of which a median is not the noise of one
APART = 0.004  # standard deviation of blocks' medians
BEYOND_NOISE = 2.0  # and how many times what their samples' own scatter makes of it
WARM_AGAIN = 2  # the first replay of a graph uploads it
WARM_MIN = 10
WARM_MAX = 60
STEADY = 0.005  # of two runs of five warm samples
FEWEST = 5
RETRY_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class Reading:
    """One sample: GPU time that counts, and all GPU time spent for it (a flush too), in ms."""

    counted_ms: float
    spent_ms: float


class Play(Protocol):
    """The work of one sample, ready to run."""

    calls: int
    moved: bool  # to a place in memory of its own

    def sample(self) -> Reading:
        """Run it once, timed."""

    def start(self) -> None:
        """Begin it untimed and do not wait, so that the state of a busy GPU can be read."""

    def finish(self) -> None:
        """Wait for what was started."""

    def close(self) -> None:
        """Give back what it holds."""


class Work(Protocol):
    """A callable in the form in which it is timed."""

    method: str
    note: str | None
    most_calls: int  # of one sample
    moves: bool  # whether a play can lie at a place of its own in memory

    def play(self, calls: int, *, moved: bool = False) -> Play:
        """Prepare a sample of that many calls, `moved` to another place in memory."""


class Bench(Protocol):
    """The device one measures on."""

    def work(self, call: Callable[[], object], *, cold: bool) -> Work:
        """Warm the callable up and decide how it is timed."""

    def observe(self) -> State:
        """Read the GPU's state."""

    def pause(self, seconds: float) -> None:
        """Leave the GPU idle."""

    def now(self) -> float:
        """Read a monotonic clock, in seconds."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured; times in ms, the budget in seconds.

    Past the budget nothing more is begun but what makes five samples, however long they take.
    """

    min_sample_ms: float = 2.5
    pause_ms: float = 5.0
    samples: int = 40
    budget_s: float = 30.0

    def __post_init__(self) -> None:
        if not (self.min_sample_ms > 0 and self.pause_ms >= 0 and self.budget_s > 0):
            raise ValueError(f"a sample and a budget last longer than nothing: {self}")
        if self.samples < FEWEST:
            raise ValueError(f"{self.samples} samples a process; at least {FEWEST} are needed")


@dataclass(frozen=True, slots=True)
class Block:
    """Samples taken one after the other, and the states before and after."""

    readings: tuple[Reading, ...]
    states: tuple[State, State]
    moved: bool

    @property
    def reason(self) -> str | None:
        """Why they decide nothing; None where they do."""
        before, after = self.states
        return before.disqualifies or after.disqualifies


@dataclass(frozen=True, slots=True)
class Taken:
    """The samples of one callable, in ms of GPU time per sample, with the states around them.

    `places`: how many of them, in their order, are of each place in memory; empty where all are of
    one.
    """

    readings: tuple[Reading, ...]
    places: tuple[int, ...]
    calls: int
    states: tuple[State, ...]
    reason: str | None
    note: str | None


def measure(work: Work, bench: Bench, plan: Plan) -> Taken:
    """Take the plan's samples of that work, warm and in blocks whose state qualifies."""
    deadline = bench.now() + plan.budget_s
    play = calibrate(work.play, plan.min_sample_ms, most=work.most_calls)
    try:
        steady, lasted_ms = settle(play, bench, plan)
        if lasted_ms < plan.min_sample_ms and play.calls < work.most_calls:
            play.close()  # the clock rose since the calibration
            play = calibrate(work.play, plan.min_sample_ms, play.calls, work.most_calls)
            steady, lasted_ms = settle(play, bench, plan)
    finally:
        play.close()
    blocks, reason = take(work, play.calls, lasted_ms, bench, plan, deadline)
    return Taken(
        readings=tuple(reading for block in blocks for reading in block.readings),
        places=places_of(blocks),
        calls=play.calls,
        states=tuple(state for block in blocks for state in block.states),
        reason=reason,
        note=None if steady else "the warm-up did not become steady",
    )


def places_of(blocks: Sequence[Block]) -> tuple[int, ...]:
    """Return how many samples are of each place: one a moved block, and one of all others."""
    places = [len(block.readings) for block in blocks if block.moved and block.readings]
    stayed = sum(len(block.readings) for block in blocks if not block.moved)
    return (*places, stayed) if places and stayed else tuple(places)


def calibrate(
    build: Callable[[int], Play], min_ms: float, start: int = 1, most: int = MAX_CALLS
) -> Play:
    """Return a sample that keeps the GPU busy for `min_ms` by device time, or of `most` calls."""
    calls = start
    while True:
        play = build(calls)
        try:
            lasted = median(play.sample().spent_ms for _ in range(3))  # the first uploads the graph
        except BaseException:
            play.close()
            raise
        wanted = calls_for(calls, lasted, min_ms)
        if wanted == calls or calls == most:
            return play
        play.close()
        if wanted > MAX_CALLS:
            raise MeasureError(
                f"{calls} calls keep the GPU busy for {lasted:.3f} ms; a sample needs {min_ms} ms. "
                "the callable hardly launches anything: use stopwatch.counts or .ratio"
            )
        calls = min(wanted, most)


def calls_for(calls: int, lasted_ms: float, min_ms: float) -> int:
    """Return how many calls a sample needs, given that `calls` of them lasted so long.

    The same number means enough. What a sample spends once (its launch) makes the first guesses
    too small, never too large; hence a small surplus, and a bound on each step.
    """
    if lasted_ms >= min_ms:
        return calls
    if lasted_ms <= min_ms / 64:
        return calls * 64
    return max(calls + 1, math.ceil(calls * 1.05 * min_ms / lasted_ms))


def settle(play: Play, bench: Bench, plan: Plan) -> tuple[bool, float]:
    """Run warm samples until they are steady; say whether they are, and how long one lasts."""
    seen: list[float] = []
    for _ in range(WARM_MAX):
        bench.pause(plan.pause_ms / 1000)
        seen.append(play.sample().spent_ms)
        if is_steady(seen):
            return True, median(seen[-5:])
        if sum(seen) > 1000 * plan.budget_s / 4 and len(seen) >= FEWEST:
            break
    return False, median(seen[-5:])


def is_steady(seen: list[float]) -> bool:
    """Whether the last five warm samples are like the five before them."""
    if len(seen) < WARM_MIN:
        return False
    before, after = median(seen[-10:-5]), median(seen[-5:])
    return abs(after / before - 1) <= STEADY


def take(
    work: Work, calls: int, lasted_ms: float, bench: Bench, plan: Plan, deadline: float
) -> tuple[list[Block], str | None]:
    """Take the samples in blocks, each of a play of its own, and again while it is disqualified.

    A new play means new memory, so that the figure is of eight places in which the call's memory
    may lie, and of more where they differ. Past the deadline the disqualified blocks are returned
    too. With them comes the reason for which they decide nothing.
    """

    def blocks_of(sizes: Sequence[int], have: int = 0) -> Iterator[Block]:
        for size in sizes:
            if bench.now() >= deadline and have >= FEWEST:
                return
            block = _best_block(work.play(calls, moved=True), bench, plan, size, deadline, have)
            have += len(block.readings)
            yield block

    most = BLOCKS if lasted_ms <= LONG_MS else BLOCKS_OF_LONG
    blocks = list(blocks_of(block_sizes(plan.samples, most)))
    reason = next(filter(None, (block.reason for block in blocks)), None)
    taken = sum(len(block.readings) for block in blocks)
    if reason is None and taken < plan.samples:
        reason = f"{taken} of {plan.samples} samples within the budget of {plan.budget_s:g} s"
    if work.moves and reason is None and are_apart(blocks):
        size = len(blocks[0].readings)
        more = takewhile(lambda block: block.moved, blocks_of([size] * MORE_BLOCKS, taken))
        blocks += [b for b in more if b.reason is None and len(b.readings) == size]
    return blocks, reason


def block_sizes(samples: int, most: int = BLOCKS) -> tuple[int, ...]:
    """Return the sizes of the blocks that make up so many samples, as equal as can be."""
    blocks = max(1, min(most, samples // FEW_IN_BLOCK))
    return tuple((samples * (i + 1)) // blocks - (samples * i) // blocks for i in range(blocks))


def are_apart(blocks: Sequence[Block]) -> bool:
    """Whether the place in memory shows: whole blocks differ by more than samples explain."""
    if len(blocks) < BLOCKS:
        return False
    times = [[reading.counted_ms for reading in block.readings] for block in blocks]
    if min(map(len, times)) < FEW_IN_BLOCK or min(map(min, times)) <= 0:
        return False
    logs = [[math.log(ms) for ms in block] for block in times]
    apart = stdev(map(median, logs))
    scatter = math.sqrt(fmean(variance(block) for block in logs))
    # A median of n normal samples has an SD of about 1.25/√n of theirs.
    noise = 1.25 * scatter / math.sqrt(min(map(len, logs)))
    return apart > max(APART, BEYOND_NOISE * noise)


def _worth(block: Block) -> tuple[bool, int]:
    """Rank what qualifies before what does not, and the whole before what the deadline cut."""
    return block.reason is None and bool(block.readings), len(block.readings)


def _best_block(
    play: Play, bench: Bench, plan: Plan, size: int, deadline: float, have: int
) -> Block:
    try:
        for _ in range(WARM_AGAIN):
            play.sample()
        best = _block(play, bench, plan, size, deadline, have)
        while best.reason and bench.now() < deadline:
            bench.pause(RETRY_PAUSE_S)
            best = max(best, _block(play, bench, plan, size, deadline, have), key=_worth)
        return best
    finally:
        play.close()


def _block(play: Play, bench: Bench, plan: Plan, size: int, deadline: float, have: int) -> Block:
    before = _state_at_work(play, bench, plan)
    readings: list[Reading] = []
    for _ in range(size):
        if bench.now() >= deadline and have + len(readings) >= FEWEST:
            break
        bench.pause(plan.pause_ms / 1000)
        readings.append(play.sample())
    return Block(tuple(readings), (before, _state_at_work(play, bench, plan)), play.moved)


def _state_at_work(play: Play, bench: Bench, plan: Plan) -> State:
    bench.pause(plan.pause_ms / 1000)
    play.start()  # an idle GPU shows neither its clock nor what holds it back
    state = bench.observe()
    play.finish()
    return state
