"""What a test claims of traces, whichever way it came by them, and what became of that."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from kernelpin.claims import ClaimFailed
    from kernelpin.trace import Trace

_SUBJECT = "kernelpin.claims.subject"
# `under` is in the second; all it asks is whether an op is called.
_ABOUT_OPS = frozenset({"kernelpin.claims.on_ops", "kernelpin.claims.claims"})
_CAPTURED = "capture of "  # how `kernelpin.capture` calls what it gives
_BYTES = "<bytes>"  # and `load_trace` what no file holds: made up, for all that is known of it


class Claimed:
    """The claims that are made, and the one that fails, within `with claimed.noting():`.

    `any`: whether one was made, of a trace that was captured or lies in a file. `error`: what
    failed the test as a claim or as a trace that cannot be judged, as it left the test's body.
    `captured`, `recorded`: of what GPU's traces, made here or read from a file; None stands for the
    CPU. Names, not traces: those are large.
    """

    def __init__(self) -> None:
        self.any = False
        self.error: BaseException | None = None
        self.captured: list[str | None] = []
        self.recorded: list[str | None] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Listen to the claims; those of a test that is the first to import them are not told."""
        subject: Any = sys.modules.get(_SUBJECT)
        if subject is None:
            try:
                yield
            finally:
                self.any = _SUBJECT in sys.modules
            return
        subject.listeners.append(self._note)
        try:
            yield
        finally:
            subject.listeners.remove(self._note)

    def _note(self, trace: Trace) -> None:
        if trace.source == _BYTES:
            return
        self.any = True
        gpu = None if trace.device is None else trace.device.name
        (self.captured if trace.source.startswith(_CAPTURED) else self.recorded).append(gpu)


def is_claim(error: BaseException | None) -> TypeGuard[ClaimFailed]:
    return type(error).__name__ == "ClaimFailed" and hasattr(error, "finding")


def is_finding(error: BaseException | None) -> bool:
    """Whether the error says what a trace shows: a failed claim, or that it shows too little."""
    return is_claim(error) or (
        type(error).__name__ == "TraceError" and type(error).__module__ == "kernelpin"
    )


def is_wrong_claim(error: BaseException | None) -> bool:
    """Whether a claim itself was refused, as for a kernel family that there is none of."""
    if error is None or is_finding(error):
        return False
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    name = None if at is None else at.tb_frame.f_globals.get("__name__")
    return isinstance(name, str) and name.startswith("kernelpin.claims")


def outcome_of(error: ClaimFailed) -> str:
    """What a failed claim is counted as: `other ops` where it was about ops or runtime calls."""
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_globals.get("__name__") in _ABOUT_OPS:
            return "other ops"
        at = at.tb_next
    return "other ops" if error.finding.trace.device is None else "other kernels"
