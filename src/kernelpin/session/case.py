"""What a session is asked to measure, and under which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelpin.baselines.entry import Work

_MARKER = frozenset({"limit", "because", "flops", "bytes", "dtype"})


@dataclass(frozen=True, slots=True)
class Case:
    """A test that measures: where it stands, its own limit, and what a call has to do at least.

    `line` counts from 1; `limit` is a fraction (0.03: 3 %); `cpu`: it asks for no GPU.
    """

    nodeid: str
    file: str | None = None
    line: int | None = None
    limit: float | None = None
    because: str | None = None
    work: Work | None = None
    cpu: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """The session's options; `ci` names the variable that says it is a CI run.

    `base_all`: every timing test is compared with the base, not only suspects. `add`: figures
    that are recorded stand beside those of earlier days, not in their place.
    """

    rootdir: Path
    baselines: Path
    processes: int = 1
    update: str = "none"
    add: bool = False
    reason: str | None = None
    base_all: bool = False
    report: Path | None = None
    ci: str | None = None

    @property
    def proposed(self) -> Path | None:
        """Where a run with a report puts the baselines as they would be."""
        return None if self.report is None else self.report / "proposed"


def from_marker(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a Case that the marker `kernelpin` sets; ValueError on any other argument."""
    unknown = sorted(set(kwargs) - _MARKER)
    if args or unknown:
        found = ", ".join([*map(repr, args), *unknown])
        raise ValueError(
            f"marker kernelpin: unknown argument {found}; allowed are "
            "limit=0.03, because='…', flops=…, bytes=…, dtype='bf16'"
        )
    fields: dict[str, Any] = {"because": kwargs.get("because")}
    if kwargs.get("limit") is not None:
        fields["limit"] = _fraction(kwargs["limit"])
    if kwargs.get("flops") or kwargs.get("bytes"):
        fields["work"] = Work(
            flops=int(kwargs.get("flops") or 0),
            bytes=int(kwargs.get("bytes") or 0),
            dtype=str(kwargs.get("dtype") or "bf16"),
        )
    return fields


def _fraction(value: Any) -> float:
    """`0.025` and `"2.5 %"` are the same limit."""
    try:
        if isinstance(value, str) and value.strip().endswith("%"):
            limit = float(value.strip().rstrip("%")) / 100
        else:
            limit = float(value)
    except (TypeError, ValueError):
        limit = 0.0
    if not 0 < limit < 1:
        raise ValueError(
            f"marker kernelpin: limit={value!r}: allowed is a fraction between 0 and 1 "
            "(0.03 stands for 3 %) or '3 %'"
        )
    return limit
