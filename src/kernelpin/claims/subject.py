"""What a claim is about: the steps of a trace, or the calls of an op, and how to speak of them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeAlias, TypeVar

from kernelpin.claims.finding import ClaimFailed, Finding
from kernelpin.render import clean, elide, tree
from kernelpin.trace import Call, Kernel, Op, Step, Trace, TraceError

Scope: TypeAlias = Step | Op
View: TypeAlias = Op | Kernel | Call
_Named = TypeVar("_Named", Op, Call)

NAME_WIDTH = 48
MAX_WARNINGS = 3

# Who is told of which trace a claim is made; the last one only: a session inside of a test has its
# own, and what it claims is not the test's.
listeners: list[Callable[[Trace], None]] = []


@dataclass(frozen=True, slots=True)
class Failure:
    """What one step or call has instead of what was claimed."""

    found: str
    marked: Mapping[View, str] = field(default_factory=dict)
    ops: bool = False  # whether the evidence is about ops, those without kernels included
    lines: tuple[str, ...] = ()


Check: TypeAlias = Callable[[Scope], Failure | None]


@dataclass(frozen=True, slots=True)
class Subject:
    """The scopes a claim must hold in, each of them; `path` names the op they are calls of."""

    trace: Trace
    scopes: tuple[Scope, ...]
    path: str = ""
    whole: bool = True  # the trace itself was given, so all of it must be complete

    @property
    def place(self) -> str:
        """Where a claim is made: `under aten::linear`, `in a step`, `in ProfilerStep#2`."""
        if self.path:
            return f"under {self.path}"
        return "in a step" if len(self.scopes) > 1 else f"in {short(self.scopes[0].name)}"

    @property
    def noun(self) -> str:
        return "call" if self.path else "step"

    def require_complete(self) -> None:
        """Raise TraceError where records are missing: what is not there proves nothing.

        Every claim asks this first, so that this is where the listener hears of it.
        """
        __tracebackhide__ = True
        if listeners:
            listeners[-1](self.trace)
        if self.whole:
            self.trace.require_complete()
        for scope in self.scopes:
            if not self.whole:
                self.trace.require_complete(scope)
            self.trace.require_end(scope)
            if isinstance(scope, Step) and not scope.launches and not scope.ops():
                raise self.error(f"{scope.name} holds neither an op nor a launch")

    def require_gpu(self) -> None:
        """Raise TraceError unless the trace can show which kernels each scope runs."""
        __tracebackhide__ = True
        self.require_complete()
        if not self.trace.has_gpu_records and not self.trace.calls():
            raise self.error(
                "it holds no GPU activity, so nothing can be said of kernels; capture on a GPU "
                "with ProfilerActivity.CUDA, or claim what holds of ops: .dispatches(…)"
            )
        for scope in self.scopes:
            if any(launch.captured for launch in scope.launches):
                raise self.error(
                    f"{short(scope.name)} captures a CUDA graph, whose kernels run when it is "
                    "replayed; trace a later step"
                )

    def require_calls(self) -> None:
        """Raise TraceError unless runtime calls were recorded."""
        __tracebackhide__ = True
        self.require_complete()
        if not self.trace.calls():
            raise self.error(
                "it holds no runtime call, so nothing can be said of them; capture on a GPU with "
                "ProfilerActivity.CUDA"
            )

    def require_nesting(self) -> None:
        """Raise TraceError where it is not known what lies in an op of the scopes."""
        __tracebackhide__ = True
        for scope in self.scopes:
            for op in scope.ops():
                if not op.is_annotation:  # labels may overlap: they are no work
                    self.trace.require_end(op)

    def require_ops(self) -> None:
        """Raise TraceError unless ops were recorded."""
        __tracebackhide__ = True
        self.require_complete()
        if all(op.is_annotation for op in self.trace.ops()):
            raise self.error(
                "it holds no op, so nothing can be said of what was dispatched; capture with "
                "ProfilerActivity.CPU"
            )

    def error(self, what: str) -> TraceError:
        return TraceError(f"{clean(self.trace.source)}: {what}")

    def judge(self, expected: str, check: Check, because: str | None) -> None:
        """Raise ClaimFailed about the first scope in which the check finds a failure."""
        __tracebackhide__ = True
        found = list(map(check, self.scopes))  # no comprehension: before 3.12 it is a frame too
        failures = [(at, failure) for at, failure in enumerate(found) if failure is not None]
        if not failures:
            return
        at, first = failures[0]
        alike = all(failure.found == first.found for _, failure in failures)
        where = self._where(at, len(failures), alike)
        drawn = tree(self.scopes[at], first.marked, ops=first.ops)
        self.fail(f"expected {expected} {self.place}, found {first.found}{where}",
                  (*drawn, *first.lines), because)  # fmt: skip

    def fail(self, headline: str, evidence: Iterable[str], because: str | None) -> None:
        __tracebackhide__ = True
        warnings = [f"warning: {clean(w)}" for w in self.trace.warnings[:MAX_WARNINGS]]
        if len(self.trace.warnings) > MAX_WARNINGS:
            warnings.append(f"warning: … {len(self.trace.warnings) - MAX_WARNINGS} more")
        raise ClaimFailed(
            Finding(headline, (*evidence, *warnings), because, self.trace.source, self.trace)
        )

    def _where(self, first: int, failed: int, alike: bool) -> str:
        total = len(self.scopes)
        if total == 1:
            return ""
        if failed == total and alike:
            return f" in each of {total} {self.noun}s"
        name = f"call {first + 1}" if self.path else short(self.scopes[first].name)
        verb = "fails" if failed == 1 else "fail"
        return f" in {name} ({failed} of {total} {self.noun}s {verb})"


def matching(views: Iterable[_Named], name: str) -> list[_Named]:
    """Those of that name, or that a glob like `triton_poi_*` matches."""
    return [v for v in views if v.name == name or fnmatchcase(v.name, name)]


def nearest(name: str, views: Iterable[Op | Call]) -> tuple[str, ...]:
    """A line with the names that look like what was looked for and not found."""
    bare = {view.name: view.name.rpartition("::")[2] for view in views}
    wanted = name.rpartition("::")[2]
    found = [full for full in bare if name.lower() in full.lower()]
    close = difflib.get_close_matches(wanted, list(bare.values()))
    found = found or [full for full, part in bare.items() if part in close]
    return (f"nearest: {', '.join(map(short, found[:3]))}",) if found else ()


def marks(views: Iterable[View], note: str = "unexpected") -> dict[View, str]:
    """Offenders, each with the words that stand beside it in the tree."""
    return dict.fromkeys(views, note)


def surplus(views: Sequence[View], n: int) -> dict[View, str]:
    """Where there are more than n: each of them, since nothing tells which is the one too many."""
    return marks(views, f"one of {len(views)}" if n else "unexpected") if len(views) > n else {}


def repeated(name: str, n: int) -> str:
    """A full name and how often: `aten::mm × 3`."""
    return clean(name) + (f" × {n}" if n > 1 else "")


def trace_of(scope: Scope) -> Trace:
    """The trace that a step or op is a view of."""
    return scope._trace  # the views keep it to themselves: users hold the trace anyway


def short(name: str) -> str:
    """A name as a headline shows it."""
    return elide(clean(name), NAME_WIDTH)
