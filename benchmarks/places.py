"""What the median and the mean over places in memory scatter by, for places as cards have them.

    python benchmarks/places.py

A seeded simulation on recorded figures: it draws places, with repetition, from the 56 blocks that
seven processes of one card measured of each test, and takes as a process's figure their median or
their mean. What processes differ by beside their places is in the blocks too, as if it were places.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median, stdev

RECORDED = Path(__file__).parent / "results" / "runs-h200-2026-12-01b" / "places.json"
NUMBERS = (8, 24)
PROCESSES = 4000
SEED = 0
EQUAL = "(two kinds, 2.2 % apart, in equal numbers)"  # as the next card's 3.305 and 3.378 µs


def main() -> int:
    print(f"{'SD of figures, %':54}" + "".join(f"{f'{n} places':>16}" for n in NUMBERS))
    print(f"{'':54}" + f"{'median':>9}{'mean':>7}" * len(NUMBERS))
    blocks_of = {EQUAL: [3.305, 3.378]}
    for test, recorded in json.loads(RECORDED.read_text()).items():
        if recorded["method"] == "graph":  # by events, memory lies where it lies
            blocks_of[test] = [block for process in recorded["blocks_us"] for block in process]
    for test, blocks in blocks_of.items():
        row = [scatter(blocks, number, figure) for number in NUMBERS for figure in (median, fmean)]
        print(
            f"{test:54}" + "".join(f"{sd:>{w}.2f}" for sd, w in zip(row, (9, 7) * 2, strict=True))
        )
    return 0


def scatter(blocks: list[float], number: int, figure: Callable[[list[float]], float]) -> float:
    """Give the SD, in percent, of what so many processes find that draw so many places each."""
    draw = random.Random(SEED)
    figures = [figure(draw.choices(blocks, k=number)) for _ in range(PROCESSES)]
    return 100 * stdev(figures) / fmean(figures)


if __name__ == "__main__":
    raise SystemExit(main())
