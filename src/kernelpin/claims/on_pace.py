"""Claims about who sets the pace, the host or the GPU."""

from __future__ import annotations

from statistics import median
from typing import Self

from kernelpin.claims import checks
from kernelpin.claims.base import ClaimsBase
from kernelpin.claims.subject import short
from kernelpin.render import format_ns, table

LISTED = 10  # steps in the evidence


class PaceClaims(ClaimsBase):
    """How busy the GPU is kept."""

    __slots__ = ()

    def is_overhead_bound(self, idle: float = 0.9, *, because: str | None = None) -> Self:
        """The host sets the pace: the GPU idles at least that share of the time (median of steps).

        The share is that of such steps issued back to back: host time to issue one, against the
        time its kernels run. Profiled host time is longer than unprofiled, so this suits clear
        cases.

        >>> expect(trace).is_overhead_bound(because="64×64 is nothing to a GPU")
        """
        __tracebackhide__ = True
        return self._idles("at least", idle, "overhead-bound", because)

    def is_compute_bound(self, idle: float = 0.2, *, because: str | None = None) -> Self:
        """The GPU sets the pace: it idles at most that share of the time (median of steps).

        >>> expect(trace).is_compute_bound(because="4096×4096 keeps it busy")
        """
        __tracebackhide__ = True
        return self._idles("at most", idle, "compute-bound", because)

    def _idles(self, bound: str, idle: float, word: str, because: str | None) -> Self:
        __tracebackhide__ = True
        if not isinstance(idle, int | float) or not 0.0 <= idle <= 1.0:
            raise ValueError(f"an idle share lies between 0 and 1, not {idle!r}")
        subject = self._subject
        subject.require_gpu()
        for scope in subject.scopes:
            if not scope.kernels:
                raise subject.error(f"{short(scope.name)} launched nothing: the GPU has no pace")
            if any(kernel.suspect for kernel in scope.kernels):
                raise subject.error(
                    f"{short(scope.name)} has implausible GPU times (none, or ones that cannot be "
                    "true), so nothing can be said of its pace; repair the file or record it again"
                )
            untimed = [x for x in checks.issued(scope) if x.untimed]
            if untimed:
                raise subject.error(
                    f"{short(scope.name)} has no sound duration of {short(untimed[0].name)}, so "
                    "nothing can be said of its pace; repair the file or record it again"
                )
        shares = [checks.idle_share(scope) for scope in subject.scopes]
        found = median(shares)
        if (found >= idle) if bound == "at least" else (found <= idle):
            return self
        rows = [["", "host", "GPU busy", "GPU idle"]]
        for at, (scope, share) in enumerate(zip(subject.scopes, shares, strict=True)):
            name = short(scope.name) if subject.noun == "step" else f"call {at + 1}"
            host, busy = checks.host_ns(scope), checks.busy_ns(scope.kernels)
            rows.append([name, format_ns(host), format_ns(busy), percent(share)])
        left_out = len(shares) - LISTED
        more = [f"… {left_out} more {subject.noun}s"] if left_out > 0 else []
        several = f" (median of {len(shares)} {subject.noun}s)" if len(shares) > 1 else ""
        subject.fail(
            f"expected the GPU idle {bound} {percent(idle)} of the time {subject.place} ({word}), "
            f"found it idle {percent(found)}{several}",
            (*table(rows[: LISTED + 1]), *more), because,
        )  # fmt: skip
        return self


def percent(share: float) -> str:
    return f"{100.0 * share:.3g} %"
