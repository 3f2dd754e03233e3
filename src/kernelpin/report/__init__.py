"""What a run found, for the people and the machines that read it afterwards."""

from kernelpin.report.markdown import write_summary
from kernelpin.report.publish import annotations, publish
from kernelpin.report.rows import (
    Difference,
    Kernel,
    Paired,
    Report,
    Row,
    headline,
    outcome_counts,
)
from kernelpin.report.schema import ReportError, read_report, report_json

__all__ = [
    "Difference",
    "Kernel",
    "Paired",
    "Report",
    "ReportError",
    "Row",
    "annotations",
    "headline",
    "outcome_counts",
    "publish",
    "read_report",
    "report_json",
    "write_summary",
]
