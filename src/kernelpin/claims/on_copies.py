"""Claims about copies, and about the host waiting for the GPU."""

from __future__ import annotations

from typing import Self

from kernelpin.claims import checks
from kernelpin.claims.base import ClaimsBase
from kernelpin.claims.subject import Failure, Scope, short, surplus
from kernelpin.render import clean, count
from kernelpin.trace import Op


class CopyClaims(ClaimsBase):
    """What moves between host and GPU, and what makes the host wait."""

    __slots__ = ()

    def copies_nothing(self, kind: str | None = None, *, because: str | None = None) -> Self:
        """No memcpy, or none of a kind: `HtoD`, `DtoH`, `DtoD`, `HtoH`, `PtoP`.

        A copy done by a kernel is none: `.launches_no("copy")` takes in both.

        >>> expect(trace).copies_nothing("DtoD")
        """
        __tracebackhide__ = True
        return self._copies(0, kind, because)

    def copies(self, n: int, kind: str, *, because: str | None = None) -> Self:
        """Exactly n memcpy of a kind.

        >>> expect(trace).copies(1, "DtoD", because="addmm's full-matrix bias is copied first")
        """
        __tracebackhide__ = True
        return self._copies(checks.checked_count(n), kind, because)

    def _copies(self, n: int, kind: str | None, because: str | None) -> Self:
        __tracebackhide__ = True
        if kind is not None and kind not in checks.KINDS:
            raise ValueError(f"no kind of copy {kind!r}; there are: {', '.join(checks.KINDS)}")
        self._subject.require_gpu()

        def check(scope: Scope) -> Failure | None:
            __tracebackhide__ = True
            copies = [k for k in scope.kernels if k.category == "memcpy"]
            told = {k: checks.copy_kind(k) for k in copies}
            if kind is not None and None in told.values():
                untold = next(k for k, known in told.items() if known is None)
                raise self._subject.error(
                    f"the kind of the copy {clean(untold.name)!r} is not told by its name"
                )
            found = [k for k in copies if kind is None or told[k] == kind]
            if len(found) == n:
                return None
            return Failure(str(len(found) or "none"), surplus(found, n), ops=not scope.kernels)

        what = f"{kind} memcpy" if kind else "memcpy"
        return self._judge(count(n, what, what), check, because)

    def never_synchronizes(self, *, because: str | None = None) -> Self:
        """The host never waits for the GPU: no synchronising call, blocking copy or read-back.

        A wait for the whole device outside any op, as the profiler's own, does not count.

        >>> expect(trace).never_synchronizes(because="a wait empties the launch queue")
        """
        __tracebackhide__ = True
        self._subject.require_calls()
        self._subject.require_nesting()  # which op a wait lies in decides whether it counts

        def check(scope: Scope) -> Failure | None:
            found = checks.synchronisations(scope)
            if not found:
                return None
            first, *more = found
            op = None if isinstance(first, Op) else first.op
            known = op is None or checks.is_step_label(op)
            where = "" if op is None or known else f" in {short(op.name)}"
            return Failure(
                f"{short(first.name)}{where}" + (f" and {len(more)} more" if more else ""), found
            )

        return self._judge("no wait for the GPU", check, because)
