"""What every kind of claim stands on: a subject, and one way to judge it."""

from __future__ import annotations

from typing import Self

from kernelpin.claims.subject import Check, Subject, short, trace_of
from kernelpin.render import count
from kernelpin.trace import Op, Step, Trace


class ClaimsBase:
    """Claims about each of some steps, or each of some calls."""

    __slots__ = ("_subject",)

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def __repr__(self) -> str:
        subject = self._subject
        scopes = count(len(subject.scopes), subject.noun)
        return f"<claims about {scopes} {subject.place} of {subject.trace.source}>"

    def _judge(self, expected: str, check: Check, because: str | None) -> Self:
        __tracebackhide__ = True
        self._subject.judge(expected, check, because)
        return self


def subject_of(given: Trace | Step | Op | ClaimsBase) -> Subject:
    """What claims about a trace, a step, an op or other claims' subject are about."""
    __tracebackhide__ = True
    if isinstance(given, ClaimsBase):
        return given._subject
    if isinstance(given, Trace):
        return Subject(given, tuple(given.steps))
    if isinstance(given, Step):
        return Subject(trace_of(given), (given,), whole=False)
    if isinstance(given, Op):
        return Subject(trace_of(given), (given,), path=short(given.name), whole=False)
    raise TypeError(f"expect() takes a Trace, Step or Op, not {type(given).__name__}")
