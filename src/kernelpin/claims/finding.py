"""What a failed claim found: one line that stands alone, the evidence, and why it was claimed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kernelpin.render import clean

if TYPE_CHECKING:
    from kernelpin.trace import Trace

TRACE_SUFFIXES = (".json", ".gz")


@dataclass(frozen=True, slots=True)
class Finding:
    """The parts of a failed claim's message; `str()` is the whole of it."""

    headline: str
    evidence: tuple[str, ...]
    because: str | None
    trace_source: str
    trace: Trace = field(repr=False, compare=False)

    def saved_as(self, path: str) -> Finding:
        """The same finding, its `trace:` line naming the file the trace was saved to."""
        return replace(self, trace_source=path)

    def __str__(self) -> str:
        source = clean(self.trace_source)
        where = " (open in ui.perfetto.dev)" if source.endswith(TRACE_SUFFIXES) else ""
        because = [f"because: {clean(self.because)}"] if self.because else []
        lines = (*self.evidence, *because, f"trace: {source}{where}")
        return "\n".join((self.headline, *(f"  {line}" for line in lines)))


class ClaimFailed(AssertionError):
    """A claim does not hold: `str()` is the whole message, `finding` its parts.

    `finding` may be replaced, as by `Finding.saved_as`; the message follows it.
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding

    def __str__(self) -> str:
        return str(self.finding)

    def __repr__(self) -> str:
        return f"ClaimFailed({self.finding.headline!r})"


# The name under which it is imported: pytest puts module and name before line 1.
ClaimFailed.__module__ = "kernelpin"
