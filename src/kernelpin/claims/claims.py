"""`expect(trace)` and what can be claimed of it; each method is one sentence."""

from __future__ import annotations

from kernelpin.claims import checks
from kernelpin.claims.base import ClaimsBase, subject_of
from kernelpin.claims.on_copies import CopyClaims
from kernelpin.claims.on_kernels import KernelClaims
from kernelpin.claims.on_ops import OpClaims
from kernelpin.claims.on_pace import PaceClaims
from kernelpin.claims.subject import Failure, Scope, Subject, matching, nearest, short
from kernelpin.trace import Op, Step, Trace


def expect(subject: Trace | Step | Op | ClaimsBase) -> Claims:
    """Claims about each step of a trace, about one step, or about one call of an op.

    Every claim returns the claims again, so that they chain, and takes `because=` to say why it
    should hold. It raises ClaimFailed where it does not; TraceError where the trace cannot tell
    (records lost, no GPU activity recorded, no ops); ValueError where the claim itself is wrong.

    >>> expect(trace).under("aten::linear").launches(1, "gemm", because="the bias is folded")
    """
    __tracebackhide__ = True
    return Claims(subject_of(subject))


class Claims(KernelClaims, CopyClaims, OpClaims, PaceClaims):
    """What is claimed of each of some steps, or of each of some calls; `expect` makes one.

    Names of ops, runtime calls and kernels may be globs (`triton_poi_*`). Families are those of
    `kernelpin.kernel_name.FAMILIES`; `triton` takes in every `triton_*`. Unless they say otherwise,
    claims count kernels proper: memcpy and memset have claims of their own.
    """

    __slots__ = ()

    def under(self, name: str, *, because: str | None = None) -> Claims:
        """Claims about every call of an op or label, at any depth; each step must have one.

        >>> expect(trace).under("aten::t").launches_nothing()
        """
        __tracebackhide__ = True
        (name,) = checks.checked_names((name,), "op")
        subject = self._subject
        subject.require_ops()

        def check(scope: Scope) -> Failure | None:
            if matching(scope.ops(), name):
                return None
            return Failure("none", ops=True, lines=nearest(name, scope.ops()))

        subject.judge(f"a call of {short(name)}", check, because)
        calls = tuple(op for scope in subject.scopes for op in matching(scope.ops(), name))
        path = f"{short(name)} in {subject.path}" if subject.path else short(name)
        return Claims(Subject(subject.trace, calls, path=path, whole=subject.whole))
