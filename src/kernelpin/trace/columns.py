"""What a trace is made of: its columns, its devices, and what can be wrong with it."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Category = Literal["kernel", "memcpy", "memset"]
CATEGORIES: tuple[Category, ...] = ("kernel", "memcpy", "memset")
NONE = -1  # in a column of ids: there is none
# A duration in ns that could not be read; below all that are: 146 years of them.
UNREADABLE = -(2**62)

# In `op_untimed`: how the end of an op is not known.
REPAIRED = 1  # its duration could not be true, and was taken as 0
CUT = 2  # another op starts in it and ends after it, so that what lies in it is not known

_STEP = re.compile(r"ProfilerStep#\d{1,18}")


class TraceError(Exception):
    """A trace that cannot be read, or a question it cannot answer: says which, where and why."""


class KernelpinWarning(UserWarning):
    """Something was repaired, left out or looks implausible; `Trace.warnings` lists what."""


# The name under which they are imported: pytest puts module and name before line 1.
TraceError.__module__ = KernelpinWarning.__module__ = "kernelpin"


def slugify(name: str) -> str:
    """A device's name as a folder name: `NVIDIA A100-SXM4-80GB` → `nvidia-a100-sxm4-80gb`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def is_step(name: str) -> bool:
    """Whether a label is one that `torch.profiler.schedule` puts around a step."""
    return name.startswith("ProfilerStep#") and _STEP.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the trace's header describes it; what the header leaves out is None."""

    id: int
    name: str
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None

    @property
    def slug(self) -> str:
        """The name of the GPU's folder under `baselines/`."""
        return slugify(self.name)


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Columns:
    """The linked events of a trace: what `attribution.link` makes and `Trace` reads.

    Ops stand in preorder, thread by thread: the subtree of op i is range(i, op_end[i]).
    Calls stand by start time; kernels by (launch, start), the strays behind all others.
    """

    threads: list[str] = field(default_factory=list)
    op_name: list[str] = field(default_factory=list)
    op_start: array[int] = field(default_factory=_column)
    op_duration: array[int] = field(default_factory=_column)
    op_thread: array[int] = field(default_factory=_column)
    op_parent: array[int] = field(default_factory=_column)
    op_end: array[int] = field(default_factory=_column)
    op_annotation: bytearray = field(default_factory=bytearray)
    op_untimed: bytearray = field(default_factory=bytearray)  # 0, REPAIRED or CUT
    op_args: Sequence[Any] = field(default_factory=list)
    call_name: list[str] = field(default_factory=list)
    call_start: array[int] = field(default_factory=_column)
    call_duration: array[int] = field(default_factory=_column)
    call_untimed: bytearray = field(default_factory=bytearray)  # 0 or REPAIRED
    call_thread: array[int] = field(default_factory=_column)
    call_op: array[int] = field(default_factory=_column)
    call_launch: bytearray = field(default_factory=bytearray)
    call_captured: bytearray = field(default_factory=bytearray)
    # The calls by (op, start), and those ops: a subtree's calls are one slice.
    calls_by_op: array[int] = field(default_factory=_column)
    ops_of_calls: array[int] = field(default_factory=_column)
    kernel_name: list[str] = field(default_factory=list)
    kernel_category: bytearray = field(default_factory=bytearray)  # index into CATEGORIES
    kernel_start: array[int] = field(default_factory=_column)
    kernel_duration: array[int] = field(default_factory=_column)
    kernel_stream: array[int] = field(default_factory=_column)
    kernel_device: array[int] = field(default_factory=_column)
    kernel_launch: array[int] = field(default_factory=_column)
    kernel_suspect: bytearray = field(default_factory=bytearray)
    kernel_args: Sequence[Any] = field(default_factory=list)
    linked: int = 0  # how many kernels have a launch: the strays begin here
    # Between which times the launch of a stray in midstream must have been, that was not recorded.
    unrecorded: list[tuple[int, int]] = field(default_factory=list)
