"""Fresh measuring processes: started, fed, bounded, and what they measured collected."""

from __future__ import annotations

from kernelpin.workers.fleet import Budget, Fleet, Progress, Results, Source
from kernelpin.workers.journal import InUseError, Journal, alone_with
from kernelpin.workers.launch import Launch, environment, forwarded
from kernelpin.workers.replay import Replay
from kernelpin.workers.result import WorkerResult, encode, read_recorded

__all__ = [
    "Budget",
    "Fleet",
    "InUseError",
    "Journal",
    "Launch",
    "Progress",
    "Replay",
    "Results",
    "Source",
    "WorkerResult",
    "alone_with",
    "encode",
    "environment",
    "forwarded",
    "read_recorded",
]
