"""How much device time differs between fresh processes: one figure a process and workload.

    python benchmarks/noise.py --processes 12 --budget 240 --out noise/

Prints the table last: SD of the log figures between processes (the goal: at most 0.5 % for every
workload from 1.5 µs up), 90th percentile over median within a process, clocks. Every sample goes to
OUT/noise.json. Processes run one after another, and none begins that the budget in seconds would
cut.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from subjects import SUBJECTS, chosen, gpu_to_itself, require_gpu

GOAL_PERCENT = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--budget", type=float, default=240.0, help="seconds for all processes")
    parser.add_argument("--out", type=Path, default=Path("noise"))
    parser.add_argument("--only", help="subjects whose names hold this")
    parser.add_argument("--min-sample-ms", type=float, default=2.5)
    parser.add_argument("--pause-ms", type=float, default=5.0)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    require_gpu()
    if options.worker:
        with gpu_to_itself():
            return work(options)
    options.out.mkdir(parents=True, exist_ok=True)
    processes = run_processes(options)
    record = {"options": {k: str(v) for k, v in vars(options).items()}, "processes": processes}
    (options.out / "noise.json").write_text(json.dumps(record))
    print(table(processes), flush=True)
    return 0 if any(process["measured"] for process in processes) else 1


def run_processes(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the workers one after another; a failed one is shown and left out."""
    deadline = time.monotonic() + options.budget
    took = 0.0
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.processes):
            left = deadline - time.monotonic()
            if left < 1.3 * took:  # the first, which compiles, is the slowest
                print(f"the budget of {options.budget:g} s ends after {number} processes")
                break
            result = Path(folder) / f"{number}.json"
            command = [sys.executable, *sys.argv, "--worker", str(result)]
            started = time.monotonic()
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=max(left, 1), check=False
                )
            except subprocess.TimeoutExpired:
                print(f"process {number} did not end within the budget")
                break
            took = time.monotonic() - started
            if not result.exists():
                print(f"process {number} failed:\n{done.stderr[-3000:]}", flush=True)
                continue
            found.append(json.loads(result.read_text()))
            figures = " ".join(f"{m['figure']:.2f}" for m in found[-1]["measured"].values())
            print(f"process {number}: {took:.1f} s: {figures}", flush=True)
            for name, text in found[-1]["failed"].items():
                print(f"  {name}: {text}", flush=True)
    return found


def work(options: argparse.Namespace) -> int:
    """Measure every subject in this process and write what came of it."""
    import torch

    from kernelpin.machine import describe
    from kernelpin.stopwatch import Stopwatch, fresh_compiler

    stopwatch = Stopwatch(
        min_sample_ms=options.min_sample_ms, pause_ms=options.pause_ms, samples=options.samples
    )
    measured: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for name in chosen(options.only):
        build, l2 = SUBJECTS[name]
        started = time.monotonic()
        try:
            fresh_compiler()
            fn, args = build()
            built = time.monotonic()
            samples = stopwatch(fn, *args, l2=l2)
        except Exception as error:  # one subject's failure says nothing of the others
            failed[name] = f"{type(error).__name__}: {error}"
            continue
        clocks = [state.sm_clock_mhz for state in samples.state]
        measured[name] = {
            "figure": samples.figure,
            "values": samples.values,
            "method": samples.method,
            "calls": samples.calls_per_sample,
            "clocks": clocks,
            "power_capped": samples.power_capped,
            "reason": samples.reason,
            "note": samples.note,
            "build_s": built - started,
            "measure_s": time.monotonic() - built,
        }
        del fn, args
        torch.cuda.empty_cache()
    record = {"machine": describe(), "measured": measured, "failed": failed}
    options.worker.write_text(json.dumps(record))
    return 0


def table(processes: list[dict[str, Any]]) -> str:
    """Give the figures' spread between processes, a line a subject."""
    if not processes:
        return "no process ended"
    lines = [
        processes[0]["machine"],
        f"{len(processes)} processes; SD between processes should be ≤ {GOAL_PERCENT} %",
        f"{'subject':24}{'method':>8}{'calls':>7}{'median µs':>11}{'SD %':>7}{'range %':>9}"
        f"{'next %':>8}{'p90 %':>7}{'SM MHz':>12}{'cap':>5}{'s':>6}  notes",
    ]
    names = [n for n in SUBJECTS if any(n in process["measured"] for process in processes)]
    for name in names:
        found = [p["measured"][name] for p in processes if name in p["measured"]]
        logs = [math.log(one["figure"]) for one in found]
        several = len(logs) > 1
        sd = 100 * stdev(logs) if several else math.nan
        spread = 100 * (math.exp(max(logs) - min(logs)) - 1)
        steps = [after - before for before, after in pairwise(logs)]
        following = 100 * math.sqrt(mean(step * step for step in steps)) if several else math.nan
        p90 = median(100 * (percentile(one["values"], 0.9) / one["figure"] - 1) for one in found)
        clocks = [clock for one in found for clock in one["clocks"] if clock is not None]
        notes = {text for one in found for text in (one["reason"], one["note"]) if text}
        lines.append(
            f"{name:24}{found[0]['method']:>8}{median(one['calls'] for one in found):>7.0f}"
            f"{median(one['figure'] for one in found):>11.3f}{sd:>7.2f}{spread:>9.2f}"
            f"{following:>8.2f}{p90:>7.2f}"
            f"{f'{min(clocks)}-{max(clocks)}' if clocks else '-':>12}"
            f"{sum(one['power_capped'] for one in found):>5}"
            f"{median(one['measure_s'] for one in found):>6.2f}  {'; '.join(sorted(notes))}"
        )
    return "\n".join(lines)


def percentile(values: list[float], share: float) -> float:
    """Give the value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


if __name__ == "__main__":
    raise SystemExit(main())
