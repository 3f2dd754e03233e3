"""Whether device time is true: against the same replays, profiled in another process.

    python benchmarks/truth.py --out truth/

One process times each subject; another, since a profiler slows what is timed after it, profiles
replays of graphs with as many calls and takes the span from the first kernel's start to the last
one's end. Above 100 µs they should agree within 3 % at equal clocks; below, the gap per graph node
is what there is to see. Prints the table last; OUT/truth.json holds every figure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from subjects import SUBJECTS, chosen, gpu_to_itself, require_gpu

if TYPE_CHECKING:
    from kernelpin.trace import Step

STEPS = 10
PLACES = 3  # in memory, as the stopwatch measures in several


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("truth"))
    parser.add_argument("--only", help="subjects whose names hold this")
    parser.add_argument("--role", choices=["time", "profile"], help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--calls", type=json.loads, default={}, help=argparse.SUPPRESS)
    options = parser.parse_args()
    require_gpu()
    if options.role:
        with gpu_to_itself():
            return work(options)
    options.out.mkdir(parents=True, exist_ok=True)
    timed = child(options, "time", {})
    calls = {name: one["calls"] for name, one in timed.items() if one.get("method") == "graph"}
    profiled = child(options, "profile", calls)
    rows = [{"name": n, **timed[n], **profiled.get(n, {})} for n in timed]
    (options.out / "truth.json").write_text(json.dumps(rows, indent=1))
    print(table(rows), flush=True)
    return 0 if any("span_us" in row for row in rows) else 1


def child(options: argparse.Namespace, role: str, calls: dict[str, int]) -> dict[str, Any]:
    """Run this script in a fresh process in that role; give what it found, by subject."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, __file__, "--role", role, "--result", str(result)]
        command += ["--calls", json.dumps(calls)]
        command += ["--only", options.only] if options.only else []
        subprocess.run(command, check=True, timeout=300)
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def work(options: argparse.Namespace) -> int:
    """Time or profile each subject in this process; one subject's failure is its own."""
    from kernelpin.stopwatch import fresh_compiler

    found: dict[str, Any] = {}
    # The longest first: a profiler session slows the small ones that follow.
    for name in reversed(chosen(options.only)):
        if options.role == "profile" and name not in options.calls:
            continue
        fresh_compiler()
        build, l2 = SUBJECTS[name]
        if l2 == "cold":
            continue
        try:
            fn, args = build()
            if options.role == "time":
                found[name] = time_it(fn, args)
            else:
                found[name] = profile_it(fn, args, options.calls[name])
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    options.result.write_text(json.dumps(found))
    return 0


def time_it(fn: Any, args: Any) -> dict[str, Any]:
    """Take the stopwatch's figure."""
    from kernelpin.stopwatch import Stopwatch

    samples = Stopwatch()(fn, *args)
    return {
        "method": samples.method,
        "calls": samples.calls_per_sample,
        "device_us": samples.figure,
        "clock": samples.sm_clock_mhz,
        "reason": samples.reason,
    }


def profile_it(fn: Any, args: Any, calls: int) -> dict[str, Any]:
    """Profile replays of a graph of that many calls, paced as the stopwatch paces them."""
    from functools import partial

    from kernelpin.machine import observe
    from kernelpin.profiling import capture
    from kernelpin.stopwatch.cuda import CudaBench

    bench = CudaBench()
    work = bench.work(partial(fn, *args), cold=False)
    steps: list[Step] = []
    clocks = []
    work.play(calls).close()  # which tells the memory that a capture takes
    # All before the first profiler session.
    plays = [work.play(calls, moved=True) for _ in range(PLACES)]
    for play in plays:

        def replay(start: Callable[[], None] = play.start) -> None:
            time.sleep(0.005)
            start()

        for _ in range(20):
            replay()
            play.finish()
        trace = capture(replay, steps=STEPS)
        play.start()
        clocks.append(observe().sm_clock_mhz)
        play.finish()
        trace.require_complete()
        steps += trace.steps
    for play in plays:
        play.close()
    return {
        "span_us": median(step.span_ns for step in steps) / 1000 / calls,
        "sum_us": median(step.sum_ns for step in steps) / 1000 / calls,
        "spans_us": [step.span_ns / 1000 / calls for step in steps],
        "nodes": median(len(step.kernels) for step in steps) / calls,
        "profiled_clock": median(filter(None, clocks)) if any(clocks) else None,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Give a line a subject: time, span, their difference, and the gap per graph node."""
    lines = [
        f"{'subject':24}{'device µs':>11}{'span µs':>10}{'differ %':>10}{'kernels µs':>12}"
        f"{'nodes':>7}{'gap µs/node':>13}{'MHz':>12}"
    ]
    for row in rows:
        if "span_us" not in row:
            why = row.get("error") or f"timed by {row.get('method')}, no graph of ours to profile"
            lines.append(f"{row['name']:24}{row.get('device_us', float('nan')):>11.3f}  {why}")
            continue
        differ = 100 * (row["device_us"] / row["span_us"] - 1)
        gap = (row["device_us"] - row["sum_us"]) / row["nodes"]
        clocks = f"{row['clock']}/{row['profiled_clock']}"
        lines.append(
            f"{row['name']:24}{row['device_us']:>11.3f}{row['span_us']:>10.3f}{differ:>10.2f}"
            f"{row['sum_us']:>12.3f}{row['nodes']:>7.1f}{gap:>13.3f}{clocks:>12}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
