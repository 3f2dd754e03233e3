"""A test in base and in head: what the pairs came to, and what that makes of the stored verdict."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernelpin.baselines import Found
from kernelpin.baselines.device import environment_changes
from kernelpin.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from kernelpin.base import Unavailable
    from kernelpin.machine import Gpu
    from kernelpin.stopwatch import KernelFigure
    from kernelpin.workers import Source, WorkerResult


@dataclass(frozen=True, slots=True)
class Base:
    """The base to compare with: what to call it, and where its figures come from.

    `root`: its root folder, where it has one; a test file that is not there is new in head.
    """

    ref: str
    source: Source
    root: Path | None = None


_PACKAGES = ("torch", "cuda", "triton")  # which come with the environment, and that with head
Bases = Callable[[], "AbstractContextManager[Base | Unavailable]"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One test's comparison with the base.

    `verdict` None: there was nothing to compare with, and `reason` says why. `pairs`: base's and
    head's figures in time order. `kernels_base`, `kernels_head`: as listed by one process each.
    """

    ref: str
    verdict: Verdict | None
    reason: str | None = None
    head: tuple[WorkerResult, ...] = ()
    pairs: tuple[tuple[float, float], ...] = ()
    kernels_base: tuple[KernelFigure, ...] | None = None
    kernels_head: tuple[KernelFigure, ...] | None = None
    gpu_base: Gpu | None = None

    def upgraded(self, baseline: object) -> tuple[str, ...]:
        """Which packages base runs in another version than the baseline was recorded with.

        Base runs in head's environment, unless it has an interpreter of its own: of what such an
        upgrade costs it tells nothing.
        """
        if self.gpu_base is None or not isinstance(baseline, Found):
            return ()
        changes = environment_changes(baseline.device, baseline.entry, self.gpu_base)
        return tuple(it for it in changes if it.startswith(_PACKAGES))

    def applied_to(self, stored: Verdict, baseline: object = None) -> Verdict:
        """The test's verdict by both comparisons: that of base decides, where it says anything.

        SLOWER than base is SLOWER, whatever was stored; no slower than base is no fault of head's,
        though slower than what is stored, but for an upgrade (`upgraded`), which is. Figures stay
        those against the stored baseline.
        """
        paired = self.verdict
        if paired is None or paired.outcome is Outcome.UNCLEAR:
            return stored
        if paired.outcome is not Outcome.SLOWER and self.upgraded(baseline):
            return stored  # base excuses nothing
        if paired.outcome in (Outcome.SLOWER, Outcome.ALREADY_SLOWER):
            return replace(stored, outcome=paired.outcome, reason=paired.reason, decided=True)
        if stored.outcome is Outcome.UNCLEAR:
            reason = f"no slower than {self.ref}: {paired.reason}"
            return replace(stored, outcome=Outcome.SAME, reason=reason, decided=True)
        return stored
