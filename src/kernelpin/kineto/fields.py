"""Which of an event's fields are decoded, and what its category says it is."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import msgspec

# Old spellings have capitals. The value: whether the event is a label.
OPS = {"cpu_op": 0, "Operator": 0, "user_annotation": 1}
CALLS = frozenset(
    (
        *("cuda_runtime", "cuda_driver", "Runtime", "hip_runtime"),
        *("xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime"),
        *("privateuse1_runtime", "privateuse1_driver"),
    )
)
# The value: the index into trace.CATEGORIES.
GPU = {"kernel": 0, "Kernel": 0, "gpu_memcpy": 1, "Memcpy": 1, "gpu_memset": 2, "Memset": 2}
IGNORED = frozenset(
    (
        *("Trace", "python_function", "gpu_user_annotation", "cpu_instant_event", "overhead"),
        *("external_correlation", "cuda_sync", "cuda_event", "cuda_profiler_range", "xpu_sync"),
        *("collective_comm", "Communication", "hpu_op", "mtia_ccp_events", "mtia_insight"),
        *("mtia_workloadd", "mtia_counters"),
    )
)
# Metadata, flow, instant, counter and async events hold nothing that is needed.
IGNORED_PHASES = "MstfiICbneNDOPRcvV(),"

# msgspec before 0.20 lets the second through.
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError)
NO_ARGS = msgspec.Raw(b"{}")
NULL = msgspec.Raw(b"null")


class Complete(msgspec.Struct, gc=False, tag="X", tag_field="ph"):
    """An event with a start and a duration."""

    cat: str = ""
    name: str = ""
    ts: int | float | None = None
    dur: int | float | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    args: msgspec.Raw = NO_ARGS


class CompleteAsText(msgspec.Struct, gc=False, tag="X", tag_field="ph"):
    """The same, its times as they were written."""

    cat: str = ""
    name: str = ""
    ts: msgspec.Raw = NULL
    dur: msgspec.Raw = NULL
    pid: int | str | None = None
    tid: int | str | None = None
    args: msgspec.Raw = NO_ARGS


class Args(msgspec.Struct, gc=False):
    """What runtime calls and GPU records are linked by, and where the latter ran."""

    correlation: int | str | None = None
    stream: int | str | None = None
    device: int | str | None = None


class Identity(
    msgspec.Struct, gc=False, rename={"index": "Ev Idx", "old": "external id", "id": "External id"}
):
    """The numbers the profiler gave an op."""

    index: int | None = None
    id: int | None = None
    old: int | None = None


_OTHERS = [
    msgspec.defstruct(f"_Phase{ord(phase)}", [], tag=phase, tag_field="ph", gc=False)
    for phase in IGNORED_PHASES
]
_EVENT: Any = reduce(or_, _OTHERS, Complete)
_EVENT_AS_TEXT: Any = reduce(or_, _OTHERS, CompleteAsText)


class File(msgspec.Struct):
    """What is needed of a file at once."""

    traceEvents: list[_EVENT] | None = None
    deviceProperties: msgspec.Raw = NULL


class FileAsText(msgspec.Struct):
    """The same, the times of its events as they were written."""

    traceEvents: list[_EVENT_AS_TEXT] | None = None
    deviceProperties: msgspec.Raw = NULL


file_decoder = msgspec.json.Decoder(File)
file_as_text_decoder = msgspec.json.Decoder(FileAsText)
list_decoder: Any = msgspec.json.Decoder(list[_EVENT])
list_as_text_decoder: Any = msgspec.json.Decoder(list[_EVENT_AS_TEXT])
event_as_text_decoder: Any = msgspec.json.Decoder(_EVENT_AS_TEXT)
args_decoder = msgspec.json.Decoder(Args)
identity_decoder = msgspec.json.Decoder(Identity)
keys_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
items_decoder = msgspec.json.Decoder(list[msgspec.Raw])


def plain(raw: msgspec.Raw) -> Any:
    """A value as Python has it; as text where it is out of Python's or UTF-8's range."""
    try:
        return msgspec.json.decode(raw)
    except (*UNDECODABLE, RecursionError):
        return bytes(raw).decode(errors="replace")
