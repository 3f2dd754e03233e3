"""How fast and in how much memory a trace is loaded.

    python benchmarks/load.py [--size 55] [--rounds 5] [FILE]

Without a FILE it makes a trace: the events of a GeGLU MLP recorded on an H200 (ops with shapes and
strides, calls, kernels, flows), repeated with later times and new ids until the file has the size
asked for, in MB, all within three steps.

Timed in one run, in turns, each in a process of its own: `json.load`; a bare typed msgspec decode
of ph, cat, name, ts and dur, the least that any reader must do; `load_trace`, everything linked;
and HolisticTraceAnalysis where it is installed. Seconds are the best of the rounds, without
imports; memory is the peak of the whole process.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.util
import io
import json
import logging
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

RECORDED = Path(__file__).parent.parent / "tests/data/h200/geglu_64_128_768_3072.eager.json.gz"
CONTENDERS = {
    "json.load": "json",
    "typed msgspec decode": "msgspec",
    "load_trace": "kernelpin",
    "HolisticTraceAnalysis": "hta",
}


def make_trace(path: Path, size_bytes: int) -> int:
    """Write the recorded events again and again, each time later; return how many were written.

    Three steps enclose all copies, as three training steps would: HolisticTraceAnalysis takes
    time by the square of the number of steps.
    """
    trace = json.loads(gzip.decompress(RECORDED.read_bytes()))
    events = [
        event
        for event in trace.pop("traceEvents")
        if event.get("cat") != "Trace" and not event["name"].startswith("ProfilerStep#")
    ]
    fixed = [event for event in events if event["ph"] not in "Xsf"]
    moving = [event for event in events if event["ph"] in "Xsf"]
    begins = min(event["ts"] for event in moving)
    lasts = max(event["ts"] + event.get("dur", 0) for event in moving) - begins + 100
    thread = next(event for event in moving if event["cat"] == "cpu_op")
    a_copy = sum(len(json.dumps(_later(event, 500, 500 * lasts))) + 2 for event in moving)
    copies = size_bytes // a_copy // 3 * 3 + 3
    for step in range(3):
        label = {"cat": "user_annotation", "name": f"ProfilerStep#{step + 2}", "args": {}}
        spans = {"ts": begins + copies // 3 * step * lasts - 50, "dur": copies // 3 * lasts - 1}
        fixed.append({"ph": "X", "pid": thread["pid"], "tid": thread["tid"], **label, **spans})
    with path.open("w") as file:
        file.write(json.dumps(trace)[:-1] + ', "traceEvents": [\n')
        file.write(",\n".join(json.dumps(event) for event in fixed))
        for copy in range(copies):
            for event in moving:
                file.write(",\n" + json.dumps(_later(event, copy, copy * lasts)))
        file.write("\n]}")
    return len(fixed) + copies * len(moving)


def _later(event: dict, copy: int, by_us: float) -> dict:
    event = {**event, "ts": round(event["ts"] + by_us, 3)}
    if "id" in event:
        event["id"] += copy * 1_000_000
    if "args" in event:
        args = event["args"] = dict(event["args"])
        for key in ("correlation", "External id"):
            if key in args:
                args[key] += copy * 1_000_000
    return event


# -- in a process of its own ----------------------------------------------------------------------


def load(contender: str, path: str) -> tuple[float, str]:
    """Seconds to load the file, imports excluded, and what was loaded."""
    if contender == "json.load":

        def run():
            with open(path, "rb") as file:
                return json.load(file)

        what = "dicts and lists"
    elif contender == "typed msgspec decode":
        import msgspec

        fields = [("ph", str, ""), ("cat", str, ""), ("name", str, "")]
        fields += [("ts", float, 0.0), ("dur", float, 0.0)]
        event = msgspec.defstruct("Event", fields, gc=False)
        file = msgspec.defstruct("File", [("traceEvents", list[event])])
        decoder = msgspec.json.Decoder(file)

        def run():
            return decoder.decode(Path(path).read_bytes())

        what = "structs, nothing linked"
    elif contender == "load_trace":
        from kernelpin import load_trace

        def run():
            return load_trace(path)

        what = "ops, calls and kernels, linked"
    else:
        logging.disable()
        from hta.trace_analysis import TraceAnalysis

        def run():
            with contextlib.redirect_stdout(io.StringIO()):
                return TraceAnalysis(trace_files={0: path})

        what = "a data frame, indexed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        loaded = run()
        seconds = time.perf_counter() - began
    del loaded
    return seconds, what


def peak_bytes() -> int:
    """The peak memory of this process. What its parent had before exec does not count."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def measure(contender: str, path: Path) -> dict:
    """Load once in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure", contender, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


# -- the comparison -------------------------------------------------------------------------------


def compare(path: Path, rounds: int) -> bool:
    """Print the table and whether the targets are reached; return whether all are."""
    found = {name: [] for name, module in CONTENDERS.items() if importlib.util.find_spec(module)}
    for _ in range(rounds):
        for contender, measured in found.items():
            measured.append(measure(contender, path))
    size = path.stat().st_size
    print(f"{'':24}{'seconds':>9}{'MB/s':>9}{'peak MB':>9}{'× file':>8}   {'gives'}")
    best = {}
    for contender, measured in found.items():
        seconds = min(x["seconds"] for x in measured)
        peak = min(x["peak_bytes"] for x in measured)
        best[contender] = (seconds, peak)
        print(
            f"{contender:24}{seconds:9.3f}{size / 1e6 / seconds:9.1f}{peak / 1e6:9.0f}"
            f"{peak / size:8.2f}   {measured[0]['what']}"
        )
    if "HolisticTraceAnalysis" not in best:
        print("HolisticTraceAnalysis is not installed: pip install HolisticTraceAnalysis")
    print()
    seconds, peak = best["load_trace"]
    reached = [
        _say("seconds over a bare typed decode", seconds / best["typed msgspec decode"][0], "≤", 5),
        _say("peak memory over the file", peak / size, "≤", 5),
    ]
    if "HolisticTraceAnalysis" in best:
        ratio = best["HolisticTraceAnalysis"][0] / seconds
        reached.append(_say("times as fast as HolisticTraceAnalysis", ratio, "≥", 5))
    return all(reached)


def _say(what: str, ratio: float, sign: str, target: float) -> bool:
    reached = ratio <= target if sign == "≤" else ratio >= target
    print(f"{what}: {ratio:.2f} (to reach: {sign} {target}) {'reached' if reached else 'MISSED'}")
    return reached


def main() -> int:
    """Exit code 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--size", type=float, default=55, help="of the trace it makes, in MB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        seconds, what = load(options.measure, str(options.file))
        print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes(), "what": what}))
        return 0
    print(f"Python {platform.python_version()}, {platform.machine()}, best of {options.rounds}")
    if options.file:
        return not compare(options.file, options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        count = make_trace(path, int(options.size * 1e6))
        print(
            f"a trace of {path.stat().st_size / 1e6:.1f} MB, {count} events: {RECORDED.name} "
            "repeated, each copy later and with ids of its own, within three steps"
        )
        return not compare(path, options.rounds)


if __name__ == "__main__":
    sys.exit(main())
