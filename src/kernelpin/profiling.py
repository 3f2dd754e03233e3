"""Profile a function into a `Trace`: `capture(fn, *args)`, and `record(…)` for its bytes as well.

The function is called `warmup` times, then profiled: one call that is dropped, one while the
profiler warms up, `steps` that count; each in a `ProfilerStep#N` with a labelled call inside, on
CUDA with a synchronisation behind it. A trace with something missing is taken once more; then it is
a `TraceError` that says what. An error in the function surfaces as itself.

torch is imported by the first capture.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelpin.kineto import load_trace
from kernelpin.profiler_watch import CaptureError, ProfilerWatch, watch
from kernelpin.trace import Trace, TraceError
from kernelpin.wholeness import missing

__all__ = ["CaptureError", "IncompleteCapture", "Recording", "capture", "capture_bytes", "record"]

_ATTEMPTS = 2
_UNCOUNTED = 2  # calls under the profiler before those that count: wait=1, warmup=1
# Who recorded it and where: no business of whoever the trace is shown to.
_PRIVATE = re.compile(rb'("(?:host_name|traceName)"\s*:\s*)"(?:[^"\\]|\\.)*"')
# torch writes a quote or backslash in a label as invalid JSON and drops what is not ASCII.
_LABEL = re.compile(r'[^\x00-\x1f"\\\x7f-\U0010ffff]+')


@dataclass(frozen=True, slots=True)
class Recording:
    """A whole trace, with the JSON it was read from: Kineto's, without host name and path."""

    trace: Trace
    data: bytes


class IncompleteCapture(TraceError):
    """A trace that lacks something in both attempts; `data` is the JSON of the last."""

    def __init__(self, message: str, data: bytes) -> None:
        super().__init__(message)
        self.data = data


def capture(
    fn: Callable[..., object],
    *args: Any,
    steps: int = 3,
    warmup: int = 3,
    label: str = "kernelpin",
    record_shapes: bool = True,
    cuda: bool | None = None,
) -> Trace:
    """The trace of `steps` calls of `fn(*args)`, each launch with its GPU record.

    `cuda` None profiles the GPU where the warm-up calls used one; False the CPU alone. Raises
    CaptureError where another profiler is at work or `fn` starts one, and TraceError when twice
    something was missing.
    """
    __tracebackhide__ = True
    return record(
        fn,
        *args,
        steps=steps,
        warmup=warmup,
        label=label,
        record_shapes=record_shapes,
        cuda=cuda,
    ).trace


def capture_bytes(fn: Callable[..., object], *args: Any, **options: Any) -> bytes:
    """The same as the profiler's JSON, to be kept in a file; options and errors as of `capture`."""
    __tracebackhide__ = True
    return record(fn, *args, **options).data


def record(
    fn: Callable[..., object],
    *args: Any,
    steps: int = 3,
    warmup: int = 3,
    label: str = "kernelpin",
    record_shapes: bool = True,
    cuda: bool | None = None,
) -> Recording:
    """Both the trace and its JSON; options and errors as of `capture`."""
    __tracebackhide__ = True
    _require_count("steps", steps, least=1)
    _require_count("warmup", warmup, least=0)
    if not _LABEL.fullmatch(label) or label.startswith("ProfilerStep#"):
        raise ValueError(
            f"label {label!r}: allowed is printable ASCII without quotes and backslashes, since "
            "torch's profiler writes no other name correctly; ProfilerStep#… is its own"
        )
    # Read when the profiler first starts; 99 is above every level it logs at.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with watch() as watching:
        for _ in range(warmup):
            fn(*args)
        if cuda is None:
            cuda = _uses_cuda()
        _synchronize(cuda)
        for _ in range(_ATTEMPTS):
            data = _profile(watching, fn, args, steps, label, record_shapes, cuda)
            trace = load_trace(data)
            trace.source = f"capture of {_name(fn)}"
            lacks = missing(trace, steps=steps, label=label)
            if not lacks:
                return Recording(trace, data)
    raise IncompleteCapture(
        f"the trace of {_name(fn)} is not whole, {_ATTEMPTS} times over: {'; '.join(lacks)}; if "
        "the function does something else from call to call, make its calls alike, or warm it up "
        f"for longer than warmup={warmup}",
        data,
    )


def _require_count(name: str, value: object, least: int) -> None:
    __tracebackhide__ = True
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r}: allowed is a whole number from {least} on")


def _uses_cuda() -> bool:
    import torch

    return bool(torch.cuda.is_available() and torch.cuda.is_initialized())


def _synchronize(cuda: bool) -> None:
    if cuda:
        import torch

        torch.cuda.synchronize()


def _profile(
    watching: ProfilerWatch,
    fn: Callable[..., object],
    args: tuple[Any, ...],
    steps: int,
    label: str,
    record_shapes: bool,
    cuda: bool,
) -> bytes:
    __tracebackhide__ = True
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    profiler = profile(
        activities=activities,
        schedule=schedule(wait=1, warmup=1, active=steps, repeat=1),
        record_shapes=record_shapes,
    )
    with watching.ours():
        profiler.__enter__()
    try:
        for _ in range(_UNCOUNTED + steps):
            with record_function(label):
                fn(*args)
            # Behind the label: so no kernel ends in a later step, and none is lost at the end.
            _synchronize(cuda)
            with watching.ours():
                profiler.step()
    except BaseException:
        _abandon(watching, profiler)
        raise
    with watching.ours():
        profiler.__exit__(None, None, None)
    with tempfile.TemporaryDirectory(prefix="kernelpin-") as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        data = path.read_bytes()
    return _PRIVATE.sub(rb'\1""', data)


def _abandon(watching: ProfilerWatch, profiler: Any) -> None:
    """Close the session after an error, whatever state the error left the GPU in."""
    with watching.ours():
        try:
            profiler.__exit__(None, None, None)
        except Exception:
            # It synchronises first, which raises again on a GPU that an error has taken down.
            watching.end_session()


def _name(fn: Callable[..., object]) -> str:
    return getattr(fn, "__qualname__", None) or type(fn).__qualname__
