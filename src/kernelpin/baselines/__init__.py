"""The files under `baselines/`: load, validate, look up, propose, accept."""

from __future__ import annotations

from kernelpin.baselines.acceptance import Acceptance, Change, Refusal, accept
from kernelpin.baselines.entry import (
    MIN_PROCESSES,
    SCHEMA,
    DeviceRecord,
    Entry,
    File,
    KernelEntry,
    Metric,
    Mode,
    Pending,
    Recording,
    Source,
    Work,
    torch_minor,
)
from kernelpin.baselines.proposal import Measurement, Proposal, propose
from kernelpin.baselines.store import Found, Incomparable, Missing, Store
from kernelpin.baselines.text import BaselineError

__all__ = [
    "MIN_PROCESSES",
    "SCHEMA",
    "Acceptance",
    "BaselineError",
    "Change",
    "DeviceRecord",
    "Entry",
    "File",
    "Found",
    "Incomparable",
    "KernelEntry",
    "Measurement",
    "Metric",
    "Missing",
    "Mode",
    "Pending",
    "Proposal",
    "Recording",
    "Refusal",
    "Source",
    "Store",
    "Work",
    "accept",
    "propose",
    "torch_minor",
]
