"""How well the gate detects, measured on the GPUs of this machine with slowdowns of known size.

    python benchmarks/detection_gpu.py --seconds 300 --out detection/            # four GPUs
    python benchmarks/detection_gpu.py --seconds 590 --out detection/            # one
    python benchmarks/detection_gpu.py --seconds 150 --trouble --out trouble/
    python benchmarks/detection_gpu.py --table earlier/ detection/ --join        # only judge again

Every GPU is a lane of its own; up to four lanes share the workloads among them. In a lane one
process after the other measures with the product's stopwatch: two that plan (how much longer a
chain of FMAs makes +1 % of each workload, see planted.py), then the baseline's, then as many as the
time allows, each measuring every workload at every size in an order of its own. A process is a fork
of one that has imported torch and not touched the GPU: context, addresses and clocks are fresh.

What is judged (detected.py), each figure once by each method:
  stored    a process screens; suspects get 4 fresh ones, then 2 more while undecided (limit 3 %)
  paired    base in one process and head in the next, order alternating, 4 to 12 pairs (limit 1 %);
            each two processes serve twice, once either way round, but for unchanged code
  pytest-benchmark   its own sampler on replays of the stopwatch's CUDA graph, each ended by a
            synchronisation, warmed; its median against its own earlier run, `median:5%`
Under trouble unchanged code is measured after the card idled for 10 s, after a GEMM loop of 10 s
ran it into its power cap, and beside a stranger's GEMM loop. OUT/processes.jsonl holds every figure
as it came, OUT/detection_gpu.json what was made of them. The table comes last.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]  # the tree's own, whatever is installed

from benchmarks.detected import TROUBLES, report  # noqa: E402
from benchmarks.detecting import Found, Order, dry, work  # noqa: E402
from benchmarks.planted import WORKLOADS, Steps, Workload, corrected, planned  # noqa: E402
from kernelpin.machine import why_no_gpu  # noqa: E402
from kernelpin.verdict import LOOKS, STORED_SAME_CARD, is_suspect  # noqa: E402

RIVAL_EVERY = 8  # of the processes that measure everything


# -- one lane: a GPU and its processes in turn ---------------------------------------------------


@dataclass
class Lane:
    """Starts one process after the other on this GPU until the time is over."""

    number: int
    out: Path
    deadline: float
    workloads: list[Workload]
    baseline: int = 8
    most: int = 1000
    sizes: tuple[int, ...] = (0, 1, 2, 5, 10)
    dry: bool = False
    count: int = 0
    longest: dict[str, float] = field(default_factory=dict)

    def run(self, trouble: bool) -> int:
        if not self.dry:
            import torch  # noqa: F401  # once for all that are forked
        unchanged = {workload.name: {"0": workload.steps} for workload in self.workloads}
        plan = self.process("plan", unchanged)
        if plan is None:
            return 1
        before = []
        for number in range(self.baseline):
            last = number == self.baseline - 1
            before.append(self.process("baseline", unchanged, rival=last and not trouble))
        if trouble:
            for name in TROUBLES:
                self.troubled(name, unchanged, [found for found in before if found])
            return 0
        steps = planned(plan["figures"], plan["ns_per_step"], self.sizes)
        if (again := self.process("plan again", steps)) is not None:
            steps = corrected(steps, again["figures"])
        # A guess for the first of them; after that it is known.
        self.longest["now"] = len(self.sizes) * self.longest.get("baseline", 0.0)
        self.longest["now+rival"] = 2 * self.longest["now"]
        for number in range(self.most):
            rival = number % RIVAL_EVERY == 0
            if not self.has_time_for("now+rival" if rival else "now"):
                break
            self.process("now", steps, rival=rival)
        return 0

    def has_time_for(self, kind: str) -> bool:
        return time.time() + 1.1 * self.longest.get(kind, 0.0) < self.deadline

    def troubled(self, name: str, steps: Steps, before: list[Found]) -> None:
        """One process under trouble, and four more where that one leaves suspects."""
        for number in range(1 + LOOKS[0]):
            busy = None
            if name == "cold" and not self.dry:
                time.sleep(10)
            elif not self.dry:
                # Not of this run: it does not bear its mark, nor is it an ancestor.
                plain = {k: v for k, v in os.environ.items() if not k.startswith("KERNELPIN_")}
                busy = subprocess.Popen([sys.executable, __file__, "--busy"], env=plain)
                time.sleep(10)
                if name == "hot":
                    busy.kill()
                    busy.wait()
            try:
                found = self.process(name, steps, budget_s=2.0)
            finally:
                if busy is not None:
                    busy.kill()
                    busy.wait()
            if found is None or (number == 0 and not self.suspects(found, before)):
                return

    def suspects(self, found: Found, before: list[Found]) -> list[str]:
        return [
            name
            for name, figures in found["figures"].items()
            if not figures["0"]["reason"]
            and is_suspect(
                [one["figures"][name]["0"]["us"] for one in before],
                figures["0"]["us"],
                STORED_SAME_CARD,
            )
        ]

    def process(
        self, role: str, steps: Steps, *, rival: bool = False, budget_s: float = 30.0
    ) -> Found | None:
        """What a fork measured; None where the time is over or it failed."""
        kind = role + ("+rival" if rival else "")
        if not self.has_time_for(kind):
            return None
        self.count += 1
        order = Order(role, self.count, steps, rival, budget_s, self.dry)
        began = time.time()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            answer(order, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        seconds = time.time() - began
        self.longest[kind] = max(self.longest.get(kind, 0.0), seconds)
        found: Found = json.loads(told) if told else {"error": "it died"}
        found |= {"role": role, "lane": self.number, "number": self.count, "took": seconds}
        with self.out.open("a") as file:
            file.write(json.dumps(found) + "\n")
        line = f"lane {self.number}: {kind} {seconds:.1f} s {found.get('error', '')}"
        print(line, file=sys.stderr, flush=True)
        return None if "error" in found else found


def answer(order: Order, writer: int) -> None:
    """The life of a forked process: what it found goes down the pipe, what it prints nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        found = dry(order) if order.dry else work(order)
    except BaseException as error:
        traceback.print_exc()
        found = {"error": f"{type(error).__name__}: {error}"}
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(json.dumps(found).encode())
    sys.stderr.flush()
    os._exit(0)


# -- the command -------------------------------------------------------------------------------


def busy() -> int:
    """A GEMM loop that runs the card into its power cap, until it is killed."""
    import torch

    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    until = time.monotonic() + 120
    while time.monotonic() < until:
        for _ in range(20):
            torch.mm(x, x)
        torch.cuda.synchronize()
    return 0


def visible_gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES names, else the UUIDs that nvidia-smi tells."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()


def measure(options: argparse.Namespace) -> int:
    if not options.dry and (why := why_no_gpu()):
        raise SystemExit(
            f"detection_gpu.py measures on GPUs, and here is none: {why}; --dry invents figures, "
            "and --table judges those of an earlier run"
        )
    began = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    cards = ["none"] * min(2, options.lanes) if options.dry else visible_gpus()[: options.lanes]
    split = options.split or min(4, len(cards))
    lanes = []
    for lane, card in enumerate(cards):
        (options.out / f"lane-{lane}.jsonl").unlink(missing_ok=True)
        command = [sys.executable, __file__, "--out", str(options.out), "--lane", str(lane)]
        command += ["--split", str(split), "--baseline", str(options.baseline)]
        command += ["--most", str(options.most), "--sizes", *map(str, options.sizes)]
        command += ["--deadline", str(began + options.seconds - 5)]
        command += ["--dry"] * options.dry + ["--trouble"] * options.trouble
        lanes.append(subprocess.Popen(command, env=os.environ | {"CUDA_VISIBLE_DEVICES": card}))
    for process in lanes:
        process.wait()
    with (options.out / "processes.jsonl").open("w") as file:
        for lane in range(len(cards)):
            part = options.out / f"lane-{lane}.jsonl"
            if part.exists():
                file.write(part.read_text())
                part.unlink()
    return tell([options.out], options.out, time.time() - began)


def tell(
    folders: list[Path], out: Path | None, seconds: float | None = None, *, join: bool = False
) -> int:
    """Judge what lies in the folders; each is a run with a baseline of its own, unless joined."""
    processes = [
        json.loads(line) | {"run": number}
        for number, folder in enumerate(folders)
        for line in (folder / "processes.jsonl").read_text().splitlines()
    ]
    text, data = report(processes, join=join)
    if out is not None:
        (out / "detection_gpu.json").write_text(json.dumps(data | {"seconds": seconds}, indent=1))
    print(text, flush=True)
    return 0 if data["workloads"] else 1


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="for all of it")
    parser.add_argument("--out", type=Path, default=Path("detection"))
    parser.add_argument("--baseline", type=int, default=8, help="processes of the baseline")
    parser.add_argument("--most", type=int, default=1000, help="processes after those")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[0, 1, 2, 5, 10], help="slowdowns in percent"
    )
    parser.add_argument("--lanes", type=int, default=8, help="GPUs at most")
    parser.add_argument("--split", type=int, default=0, help="lanes that share the workloads")
    parser.add_argument("--trouble", action="store_true", help="cold, hot, beside a stranger")
    parser.add_argument("--table", type=Path, nargs="+", help="folders to judge again")
    parser.add_argument("--join", action="store_true", help="with --table: one run a card")
    parser.add_argument("--dry", action="store_true", help="invented figures, no GPU")
    for name, kind in (("--lane", int), ("--deadline", float)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    parser.add_argument("--busy", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.busy:
        return busy()
    if options.table:
        return tell(options.table, None, join=options.join)
    if options.lane is None:
        return measure(options)
    own = list(WORKLOADS)[options.lane % options.split :: options.split]
    out = options.out / f"lane-{options.lane}.jsonl"
    lane = Lane(options.lane, out, options.deadline, own, options.baseline, options.most)
    return replace(lane, sizes=tuple(options.sizes), dry=options.dry).run(options.trouble)


if __name__ == "__main__":
    raise SystemExit(main())
