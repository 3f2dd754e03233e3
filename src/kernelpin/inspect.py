"""The commands `kernelpin show` and `kernelpin diff`: what a trace holds, and what two differ in.

They need no GPU, and import no torch.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable

from kernelpin.render import clean
from kernelpin.trace import KernelpinWarning, Step, Trace, TraceError

SHOW_CODES = "exit codes: 0: shown; 2: the trace cannot be read, or wrong use"
DIFF_CODES = (
    "exit codes: 0: the same ops and kernels, as often; 1: they differ; "
    "2: a trace cannot be read or is incomplete, or wrong use. Times alone are no difference: a "
    "trace of a few steps cannot tell changes of a few percent."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands `show` and `diff`."""
    show = subparsers.add_parser(
        "show",
        help="a trace's dispatch tree with its kernels, and its GPU time by family",
        description="A trace's dispatch tree with its kernels, and its GPU time by family.",
        epilog=SHOW_CODES,
    )
    show.add_argument("trace", metavar="TRACE", help="Kineto JSON, gzipped or not; - reads stdin")
    show.add_argument("--step", type=int, metavar="N", help="only ProfilerStep#N")
    show.add_argument("--ops", action="store_true", help="draw the ops that launch nothing too")
    show.add_argument("--full-names", action="store_true", help="do not shorten names")
    show.add_argument("--json", action="store_true", help="everything as JSON")
    show.set_defaults(func=_guarded(_show))

    diff = subparsers.add_parser(
        "diff",
        help="the ops, kernels and times in which two traces differ",
        description="The ops, kernels and times in which two traces differ, a step against a step.",
        epilog=DIFF_CODES,
    )
    diff.add_argument("before", metavar="TRACE", help="Kineto JSON, gzipped or not; - reads stdin")
    diff.add_argument("now", metavar="TRACE", help="the one to compare with it")
    diff.add_argument("--json", action="store_true", help="everything as JSON")
    diff.set_defaults(func=_guarded(_diff))


def _show(args: argparse.Namespace) -> int:
    from kernelpin import overview

    trace = _load(args.trace)
    steps = _chosen(trace, args.step)
    if args.json:
        return _print([json.dumps(overview.as_json(trace, steps), indent=1)], 0)
    options = {"ops": args.ops, "full_names": args.full_names, "color": _wants_color()}
    return _print(overview.lines(trace, steps=steps, **options), 0)


def _diff(args: argparse.Namespace) -> int:
    from kernelpin import difference

    if args.before == args.now == "-":
        raise TraceError("-: stdin holds one trace; name a file for the other")
    found = difference.compare(_load(args.before), _load(args.now))
    status = 0 if found.same else 1
    if args.json:
        return _print([json.dumps(difference.as_json(found), indent=1)], status)
    return _print(difference.lines(found, _wants_color()), status)


def _load(path: str) -> Trace:
    from kernelpin.kineto import load_trace

    with warnings.catch_warnings():
        # They are part of what is shown.
        warnings.simplefilter("ignore", KernelpinWarning)
        return load_trace(sys.stdin.buffer if path == "-" else path)


def _chosen(trace: Trace, number: int | None) -> tuple[Step, ...] | None:
    if number is None:
        return None
    steps = tuple(step for step in trace.steps if step.number == number)
    if not steps:
        there = [str(step.number) for step in trace.steps if step.number is not None]
        known = f"there are {', '.join(there)}" if there else "the trace has no steps"
        raise TraceError(f"{trace.source}: no ProfilerStep#{number}; {known}")
    return steps


def _guarded(
    command: Callable[[argparse.Namespace], int],
) -> Callable[[argparse.Namespace], int]:
    """The command with its errors on one line of stderr and exit code 2."""

    def run(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except BrokenPipeError:
            raise
        except (TraceError, OSError) as error:
            print(f"kernelpin {args.command}: {clean(str(error))}", file=sys.stderr)
            return 2

    return run


def _wants_color() -> bool:
    """Colour on a terminal only, and not where NO_COLOR is set (no-color.org)."""
    environment = os.environ
    wanted = not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def _print(lines: Iterable[str], status: int) -> int:
    sys.stdout.write("\n".join(lines) + "\n")
    return status
