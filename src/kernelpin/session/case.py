"""What a session is asked to measure, and under which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from kernelpin import limits
from kernelpin.baselines.entry import Work

_MARKER = frozenset({"limit", "because", "flops", "bytes", "dtype"})
_MOST = 2**63 - 1  # what a baseline's file holds of an integer
_LONGEST = 80


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
        found = ", ".join([*map(_shown, args), *unknown])
        raise ValueError(
            f"marker kernelpin: unknown argument {found}; allowed are "
            "limit=0.03, because='…', flops=…, bytes=…, dtype='bf16'"
        )
    because = kwargs.get("because")
    if because is not None and not (isinstance(because, str) and because.strip()):
        raise _refused("because", because, "a text that says why")
    fields: dict[str, Any] = {} if because is None else {"because": because}
    if kwargs.get("limit") is not None:
        fields["limit"] = _fraction(kwargs["limit"])
    flops, bytes_ = (_amount(name, kwargs.get(name)) for name in ("flops", "bytes"))
    dtype = _dtype_named(kwargs.get("dtype"))
    if flops or bytes_:
        fields["work"] = Work(flops=flops, bytes=bytes_, dtype=dtype)
    return fields


def misplaced(name: str, kwargs: Mapping[str, Any]) -> str | None:
    """Say which arguments of the marker so named belong to the marker `kernelpin`; None: none.

    A suite may have a marker of that name of its own: only a limit gives the slip away.
    """
    found = sorted(set(kwargs) & _MARKER)
    if "limit" not in found:
        return None
    named = ", ".join(f"{key}={_shown(kwargs[key])}" for key in found)
    return (
        f"marker {name}: found {named}, which it does not read; allowed is "
        f"@pytest.mark.kernelpin({named}) beside it"
    )


def _refused(name: str, value: Any, allowed: str) -> ValueError:
    return ValueError(f"marker kernelpin: {name}={_shown(value)}: allowed is {allowed}")


def _shown(value: Any) -> str:
    """A value as it is written, short; what cannot be written is told by its type."""
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _amount(name: str, value: Any) -> int:
    """FLOP or bytes of one call; None stands for none that count."""
    if value is None:
        return 0
    # True is a slip, not one FLOP; and NaN is not within.
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MOST:
        raise _refused(name, value, f"a finite number from 0 to {float(_MOST):.1e}")
    return int(value)


def _dtype_named(value: Any) -> str:
    """`"bf16"`, `"bfloat16"` and `torch.bfloat16` are the same type; None stands for bf16."""
    text = "bf16" if value is None else str(value)
    try:
        limits.short_dtype(text)
    except ValueError:
        raise _refused("dtype", value, f"one of {', '.join(limits.DTYPES)}") from None
    return text


def _fraction(value: Any) -> float:
    """`0.025` and `"2.5 %"` are the same limit."""
    try:
        if isinstance(value, str) and value.strip().endswith("%"):
            limit = float(value.strip().rstrip("%")) / 100
        else:
            limit = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        limit = 0.0
    if not 0 < limit < 1:
        raise _refused("limit", value, "a fraction between 0 and 1 (0.03 stands for 3 %) or '3 %'")
    return limit
