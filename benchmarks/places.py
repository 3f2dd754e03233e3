"""How places in memory and processes differ, in figures that an H200 recorded.

    python benchmarks/places.py

For each test that was timed by graph: the SD of the blocks within a process, each at a place of its
own; the SD of seven processes, by the median of all their blocks and by the mean; and what the
places alone would leave of it, were the processes alike. Where the last is less than the others,
the processes themselves differ, and more places cannot help.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median, stdev, variance

RECORDED = Path(__file__).parent / "results" / "runs-h200-2026-12-01b" / "places.json"


def main() -> int:
    print(f"{'SD, %':54}{'places':>9}{'processes: median':>19}{'mean':>7}{'places alone':>14}")
    for test, recorded in json.loads(RECORDED.read_text()).items():
        processes = recorded["blocks_us"]
        if recorded["method"] != "graph":
            continue  # by events: its memory lies where it lies
        places = math.sqrt(fmean(variance(map(math.log, blocks)) for blocks in processes))
        row = (places, spread(processes, median), spread(processes, fmean))
        alone = places / math.sqrt(len(processes[0]))
        print(f"{test:54}{100 * row[0]:>9.2f}{row[1]:>19.2f}{row[2]:>7.2f}{100 * alone:>14.2f}")
    return 0


def spread(processes: list[list[float]], figure: Callable[[list[float]], float]) -> float:
    """Give the SD, in percent, of the logarithms of the processes' figures."""
    return 100 * stdev(math.log(figure(blocks)) for blocks in processes)


if __name__ == "__main__":
    raise SystemExit(main())
