"""A report as JSON, and back: the schema is told in docs/report.md."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from kernelpin.report.rows import Difference, Kernel, Paired, Report, Row, headline, outcome_counts

SCHEMA = "kernelpin-report"
VERSION = 1


class ReportError(Exception):
    """A report that cannot be read; says what was found and what would do."""


def report_json(report: Report) -> dict[str, Any]:
    """The report as plain JSON values; the summary can be rebuilt from it alone.

    A figure that is not finite becomes null, since JSON has no such number.
    """
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "headline": headline(report),
        "failed": report.failed,
        "counts": {
            "live": outcome_counts(row for row in report.rows if row.source != "recorded"),
            "recorded": outcome_counts(row for row in report.rows if row.source == "recorded"),
        },
        **_plain(report),
        "environment": dict(report.environment),
    }


def read_report(data: Mapping[str, Any]) -> Report:
    """The report that `report_json` wrote; unknown keys are passed over.

    Raises ReportError for another schema, a newer version, or values that make no report.
    """
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise ReportError(f'no kernelpin report: expected "schema": "{SCHEMA}"')
    if data.get("version") != VERSION:
        raise ReportError(
            f"report of version {data.get('version')!r}, this kernelpin reads version {VERSION}: "
            "read it with the kernelpin that wrote it"
        )
    try:
        report: Report = _fill(
            Report,
            data,
            rows=tuple(_row(row) for row in data["rows"]),
            environment=tuple(data.get("environment", {}).items()),
            differences=tuple(_fill(Difference, entry) for entry in data.get("differences", ())),
            problems=tuple(data.get("problems", ())),
            warnings=tuple(data.get("warnings", ())),
        )
        return report
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ReportError(f"damaged report: {type(error).__name__}: {error}") from error


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    # A verdict's outcome is a StrEnum: the JSON holds the plain word.
    return str(value) if isinstance(value, str) else value


def _fill(cls: type[Any], data: Mapping[str, Any], **made: Any) -> Any:
    names = {f.name for f in dataclasses.fields(cls)}
    return cls(**{key: value for key, value in data.items() if key in names} | made)


def _row(data: Mapping[str, Any]) -> Row:
    paired = data.get("paired")
    row: Row = _fill(
        Row,
        data,
        kernels_before=_kernels(data.get("kernels_before")),
        kernels_now=_kernels(data.get("kernels_now")),
        machine=tuple(data.get("machine", ())),
        paired=None if paired is None else _paired(paired),
    )
    return row


def _paired(data: Mapping[str, Any]) -> Paired:
    paired: Paired = _fill(
        Paired,
        data,
        pairs=tuple((base, head) for base, head in data.get("pairs", ())),
        kernels_base=_kernels(data.get("kernels_base")),
        kernels_head=_kernels(data.get("kernels_head")),
    )
    return paired


def _kernels(data: Any) -> tuple[Kernel, ...] | None:
    return None if data is None else tuple(_fill(Kernel, entry) for entry in data)
