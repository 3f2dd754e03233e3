"""Simulated sessions, judged by the very code that judges a run; benchmarks/detection.py tells."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from kernelpin.verdict import LOOKS, PAIRED, UNCLEAR_SHARE, Outcome, Rule
from kernelpin.verdict.evidence import LOOK_LEVEL, Evidence, paired, student, unpaired

SEED = 20261130
TESTS = 60
BASELINE = 8  # processes of each of baselines/nvidia-h200
DRAWN = 12  # what `kernelpin record` takes; fewer are the first of the same draws
SAMPLES = 40  # of a process, of which pytest-benchmark's minimum is taken
CHUNK = 1000  # sessions at a time: what fits a laptop's memory
UNCLEAR, SAME, FASTER, SLOWER = range(4)
NAMES = (Outcome.UNCLEAR, Outcome.SAME, Outcome.FASTER, Outcome.SLOWER)


@dataclass(frozen=True)
class Noise:
    """SD between processes, of a test drawn evenly from `low` to `high`."""

    name: str
    low: float
    high: float
    modes: bool = False  # a quarter of the processes are 12 % slower
    disturbed: float = 0.0  # this share of this run's processes is 5 to 30 % slower


QUIET = Noise("0.2–0.5 %", 0.002, 0.005)
ONE = Noise("1 %", 0.01, 0.01)
MODES = Noise("0.2–0.5 %, two modes", 0.002, 0.005, modes=True)
MODES_ONE = Noise("1 %, two modes", 0.01, 0.01, modes=True)
BACK_TO_BACK = Noise("1.2–3.7 % (back to back)", 0.012, 0.037)
DISTURBED = Noise("0.2–0.5 %, 2 % disturbed", 0.002, 0.005, disturbed=0.02)


@dataclass(frozen=True)
class Condition:
    rule: Rule
    noise: Noise
    slowdown: float = 0.0
    offset: float = 0.0  # SD of what this card and day differ from the baseline's by
    own_offset: bool = False  # drawn for each test, not once a session
    # what the method could have been instead
    n_baseline: int = BASELINE
    counts_screen: bool = False
    screen_level: float = LOOK_LEVEL
    guarded: bool = True


@dataclass
class Tally:
    """Counts over all sessions; `red`: sessions with at least one."""

    tests: int = 0
    sessions: int = 0
    verdicts: Counter[int] = field(default_factory=Counter)
    red: int = 0
    red_in_ci: int = 0
    suspects: int = 0
    processes: int = 0
    rivals: Counter[str] = field(default_factory=Counter)
    rivals_red: Counter[str] = field(default_factory=Counter)

    def share(self, verdict: int) -> float:
        return self.verdicts[verdict] / self.tests


class Draws:
    """Standard draws of `sessions` sessions, which every condition scales to its own noise."""

    def __init__(self, rng: np.random.Generator, sessions: int, n_baseline: int = DRAWN) -> None:
        self.sessions, n, m = sessions, sessions * TESTS, LOOKS[-1]
        self.sd = rng.random(n)[:, None]
        self.parts = {
            "baseline": _Part(rng, n, n_baseline),
            "screen": _Part(rng, n, 1),
            "now": _Part(rng, n, m),
            "base": _Part(rng, n, m),
        }
        self.card = np.repeat(rng.standard_normal(sessions), TESTS)[:, None]
        self.own = rng.standard_normal(n)[:, None]
        # The least of 40 samples of a process, in SDs from the process's median.
        self.least = ndtri(1 - rng.random((2, n)) ** (1 / SAMPLES))

    def logs(self, part: str, condition: Condition) -> np.ndarray:
        noise, drawn = condition.noise, self.parts[part]
        logs = drawn.normal * (noise.low + (noise.high - noise.low) * self.sd)
        if noise.modes:
            logs = logs + np.log(1.12) * (drawn.mode < 0.25)
        if part in ("screen", "now"):
            offset = condition.offset * (self.own if condition.own_offset else self.card)
            logs = logs + math.log1p(condition.slowdown) + offset
        if noise.disturbed and part != "baseline":
            logs = logs + (0.05 + 0.25 * drawn.size) * (drawn.mode < noise.disturbed)
        return logs


class _Part:
    def __init__(self, rng: np.random.Generator, tests: int, processes: int) -> None:
        self.normal = rng.standard_normal((tests, processes))
        self.mode, self.size = rng.random((2, tests, processes), np.float32)


def outcome(evidence: Evidence, rule: Rule, guarded: bool = True) -> np.ndarray:
    """kernelpin.verdict.judging's order of questions, on arrays (held equal by a test)."""
    slower = evidence.is_slower(rule.limit) if guarded else evidence.is_beyond(rule.limit)
    return np.select(
        [slower, evidence.is_faster(rule.limit), evidence.is_same(rule.limit, rule.catch)],
        [SLOWER, FASTER, SAME],
        UNCLEAR,
    )


def run(condition: Condition, draws: Draws, tally: Tally) -> None:
    rule = condition.rule
    baseline = draws.logs("baseline", condition)[:, : condition.n_baseline]
    screen, now = draws.logs("screen", condition), draws.logs("now", condition)
    n = len(baseline)
    estimates = np.zeros(n)
    if rule is PAIRED:  # every test in pairs, as with --kernelpin-base-all
        verdicts = np.full(n, UNCLEAR)
        ratios = now - draws.logs("base", condition)
        noise = baseline.std(-1, ddof=1)
        processes = 0

        def look(alive: np.ndarray, count: int) -> Evidence:
            return paired(ratios[alive, :count], noise[alive], condition.n_baseline)
    else:
        screened = unpaired(baseline, screen)
        freedom = condition.n_baseline - 1
        wider = student(freedom, condition.screen_level / 2) / student(freedom, LOOK_LEVEL / 2)
        verdicts = outcome(screened._replace(half=screened.half * wider), rule)
        estimates = screened.estimate
        processes = n

        def look(alive: np.ndarray, count: int) -> Evidence:
            figures = now[alive, :count]
            if condition.counts_screen:
                figures = np.concatenate([screen[alive], figures], -1)
            return unpaired(baseline[alive], figures)

    alive = np.flatnonzero(verdicts == UNCLEAR)
    tally.suspects += len(alive)
    done = 0
    for count in LOOKS:
        processes += len(alive) * (count - done)
        done = count
        evidence = look(alive, count)
        verdicts[alive] = outcome(evidence, rule, condition.guarded)
        estimates[alive] = evidence.estimate
        alive = alive[verdicts[alive] == UNCLEAR]
    tally.tests += n
    tally.sessions += draws.sessions
    tally.verdicts.update(dict(enumerate(np.bincount(verdicts, minlength=4).tolist())))
    tally.processes += processes * (2 if rule is PAIRED else 1)
    slower = (verdicts == SLOWER).reshape(-1, TESTS)
    unclear = (verdicts == UNCLEAR).reshape(-1, TESTS)
    beyond = unclear & (estimates > math.log1p(rule.limit)).reshape(-1, TESTS)
    tally.red += int(slower.any(-1).sum())
    too_many = unclear.sum(-1) > UNCLEAR_SHARE * TESTS
    tally.red_in_ci += int((slower.any(-1) | beyond.any(-1) | too_many).sum())
    rivals(condition, draws, baseline, screen, tally)


def rivals(
    condition: Condition, draws: Draws, baseline: np.ndarray, screen: np.ndarray, tally: Tally
) -> None:
    """pytest-benchmark: one process now, its own earlier run of one process, 5 %."""
    noise = condition.noise
    within = (noise.low + (noise.high - noise.low) * draws.sd[:, 0]) * draws.least
    for name, change in (
        ("median:5%", screen[:, 0] - baseline[:, 0]),
        ("min:5%", screen[:, 0] + within[0] - baseline[:, 0] - within[1]),
    ):
        called = change > math.log1p(0.05)
        tally.rivals[name] += int(called.sum())
        tally.rivals_red[name] += int(called.reshape(-1, TESTS).any(-1).sum())


def simulate(conditions: list[Condition], sessions: int) -> dict[Condition, Tally]:
    tallies = {condition: Tally() for condition in conditions}
    rng = np.random.default_rng(SEED)
    most = max(DRAWN, *(condition.n_baseline for condition in conditions))
    for start in range(0, sessions, CHUNK):
        draws = Draws(rng, min(CHUNK, sessions - start), most)
        for condition, tally in tallies.items():
            run(condition, draws, tally)
    return tallies
