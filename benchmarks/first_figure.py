"""Whether the first figure of a process is like its later ones, and what it would be by itself.

    python benchmarks/first_figure.py

One fresh process for each row measures a GELU of 1.5 µs, launches a hundred kernels on the default
stream, and measures it again. By itself a process follows the nodes of a graph up faster until some
launches have gone to another stream than the one that replays; kernelpin launches there before each
capture.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from subjects import SUBJECTS, gpu_to_itself, require_gpu

SUBJECT = "gelu-256x1024"
STARTS = ("by itself", "as kernelpin starts it")
ELSEWHERE = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--start", choices=STARTS, help="of that process alone, as JSON")
    options = parser.parse_args()
    require_gpu()
    if options.start:
        with gpu_to_itself():
            print(json.dumps(figures(options.start)))
        return 0
    found = {start: in_a_process_of_its_own(start) for start in STARTS}
    print(f"{SUBJECT:24}{'first µs':>10}{'later µs':>10}{'differ %':>10}")
    for start, (first, later) in found.items():
        print(f"{start:24}{first:>10.3f}{later:>10.3f}{100 * (first / later - 1):>10.2f}")
    return 0


def in_a_process_of_its_own(start: str) -> tuple[float, float]:
    """Give the first figure and the later one, in µs."""
    command = [sys.executable, __file__, "--start", start]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    first, later = json.loads(done.stdout.splitlines()[-1])
    return first, later


def figures(start: str) -> tuple[float, float]:
    """Measure, launch on the default stream, and measure again."""
    import torch

    from kernelpin.stopwatch import Stopwatch, cuda

    if start == "by itself":
        cuda.LAUNCHES_ELSEWHERE = 0
    build, _ = SUBJECTS[SUBJECT]
    stopwatch = Stopwatch()
    fn, args = build()
    first = stopwatch(fn, *args).figure
    x = torch.ones(1, device="cuda")
    for _ in range(ELSEWHERE):
        x.add_(1)
    torch.cuda.synchronize()
    return first, stopwatch(fn, *args).figure


if __name__ == "__main__":
    raise SystemExit(main())
