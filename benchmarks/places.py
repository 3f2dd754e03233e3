"""How places in memory and processes differ, in figures that an H200 recorded.

    python benchmarks/places.py

For each test that was timed by graph: the SD of the blocks within a process, each at a place of its
own; the SD of seven processes, by the median of their eight blocks, by the mean, and by the figure,
which leaves out the fastest and the slowest; and what the places alone would leave of the mean,
were the processes alike. Where that is less, processes differ, and more places cannot help.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median, stdev, variance

from kernelpin.stopwatch import Samples

RECORDED = Path(__file__).parent / "results" / "runs-h200-2026-12-01b" / "places.json"


def main() -> int:
    heads = ("places", "median", "mean", "figure", "places alone")
    print(f"{'SD, %':54}" + "".join(f"{head:>13}" for head in heads))
    for test, recorded in json.loads(RECORDED.read_text()).items():
        processes = recorded["blocks_us"]
        if recorded["method"] != "graph":
            continue  # by events: its memory lies where it lies
        places = 100 * math.sqrt(fmean(variance(map(math.log, blocks)) for blocks in processes))
        by_process = [spread(processes, how) for how in (median, fmean, figure)]
        row = (places, *by_process, places / math.sqrt(len(processes[0])))
        print(f"{test:54}" + "".join(f"{sd:>13.2f}" for sd in row))
    return 0


def figure(blocks: list[float]) -> float:
    """Give the product's figure of a process whose blocks these are."""
    return Samples("device_us", tuple(blocks), "graph", places=(1,) * len(blocks)).figure


def spread(processes: list[list[float]], figure: Callable[[list[float]], float]) -> float:
    """Give the SD, in percent, of the logarithms of the processes' figures."""
    return 100 * stdev(math.log(figure(blocks)) for blocks in processes)


if __name__ == "__main__":
    raise SystemExit(main())
