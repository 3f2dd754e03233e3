"""Pin which GPU kernels a PyTorch program runs, and how long they take."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelpin.claims import ClaimFailed, expect
    from kernelpin.kernel_name import KernelName, decode_kernel_name
    from kernelpin.kineto import load_trace
    from kernelpin.profiling import CaptureError, capture
    from kernelpin.trace import KernelpinWarning, Trace, TraceError

__all__ = [
    "CaptureError",
    "ClaimFailed",
    "KernelName",
    "KernelpinWarning",
    "Trace",
    "TraceError",
    "capture",
    "decode_kernel_name",
    "expect",
    "load_trace",
]

# Resolved on first use: pytest imports the plugin in every session of every project that has it
# installed, and must not pay for a JSON decoder there.
_HOME = {
    "CaptureError": "profiling",
    "ClaimFailed": "claims",
    "KernelName": "kernel_name",
    "KernelpinWarning": "trace",
    "Trace": "trace",
    "TraceError": "trace",
    "capture": "profiling",
    "decode_kernel_name": "kernel_name",
    "expect": "claims",
    "load_trace": "kineto",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kernelpin' has no attribute {name!r}")
    value = getattr(import_module(f"kernelpin.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
