"""A profiled run as questions can be asked of it: steps, ops, launches and GPU activities.

`Trace` holds everything in columns, one entry an event; `Op`, `Call`, `Launch`, `Kernel` and
`Step` are thin views, made when asked for and equal when they show the same event. Ops are
numbered in preorder a thread, so a subtree is a range, and nothing recurses. Times are integer ns
from the smallest `ts` of the trace's complete events.
"""

from __future__ import annotations

from kernelpin.trace.columns import Columns, Device, KernelpinWarning, TraceError, slugify
from kernelpin.trace.model import Trace
from kernelpin.trace.step import Step
from kernelpin.trace.views import Call, Kernel, Launch, Op

__all__ = [
    "Call",
    "Columns",
    "Device",
    "Kernel",
    "KernelpinWarning",
    "Launch",
    "Op",
    "Step",
    "Trace",
    "TraceError",
    "slugify",
]
