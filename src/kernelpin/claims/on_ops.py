"""Claims about what the host does: ops dispatched, functions of the runtime called."""

from __future__ import annotations

from collections import Counter
from typing import Self

from kernelpin.claims import checks, spelling
from kernelpin.claims.base import ClaimsBase
from kernelpin.claims.subject import (
    Failure,
    Scope,
    marks,
    matching,
    nearest,
    repeated,
    short,
    surplus,
)
from kernelpin.render import count, listing


class OpClaims(ClaimsBase):
    """What is dispatched and called. Those about ops hold on the CPU too."""

    __slots__ = ()

    def dispatches(self, *names: str, times: int | None = None, because: str | None = None) -> Self:
        """Each of the ops is called at any depth below, exactly `times` where that is given.

        >>> expect(trace).dispatches("aten::mm", times=3)
        """
        __tracebackhide__ = True
        wanted = checks.checked_names(names, "op")
        if times is not None:
            checks.checked_count(times, least=1)
        self._subject.require_ops()

        def check(scope: Scope) -> Failure | None:
            for name in wanted:
                calls = matching(scope.ops(), name)
                if not calls or (times is not None and len(calls) != times):
                    of = "" if len(wanted) == 1 else f" of {short(name)}"
                    near = () if calls else nearest(name, scope.ops())
                    extra = surplus(calls, times) if times else {}
                    return Failure(f"{len(calls) or 'none'}{of}", extra, ops=True, lines=near)
            return None

        called = listing([short(name) for name in wanted])
        what = f"a call of {called}" if times is None else f"{count(times, 'call')} of {called}"
        return self._judge(what, check, because)

    def does_not_dispatch(self, *names: str, because: str | None = None) -> Self:
        """None of the ops is called at any depth below.

        ValueError for a name that no op can have: an `aten::` one that torch, where it is loaded,
        has not, or one that the trace spells otherwise.

        >>> expect(trace).does_not_dispatch("aten::add", because="the bias is folded")
        """
        __tracebackhide__ = True
        wanted = checks.checked_names(names, "op")
        self._subject.require_ops()
        spelling.check_ops(wanted, self._subject.trace)

        def check(scope: Scope) -> Failure | None:
            ops = scope.ops()
            found = list(dict.fromkeys(op for name in wanted for op in matching(ops, name)))
            if not found:
                return None
            called = listing(list(dict.fromkeys(short(op.name) for op in found)))
            return Failure(f"{count(len(found), 'call')} of {called}", marks(found))

        return self._judge(f"no {listing([short(n) for n in wanted], 'or')}", check, because)

    def calls(self, name: str, *, because: str | None = None) -> Self:
        """The runtime or driver function is called.

        >>> expect(trace).under("aten::mm").calls("cudaOccupancyMaxActiveBlocks*")
        """
        __tracebackhide__ = True
        (name,) = checks.checked_names((name,), "runtime call")
        self._subject.require_calls()

        def check(scope: Scope) -> Failure | None:
            if matching(scope.calls(), name):
                return None
            made = Counter(call.name for call in scope.calls())
            lines = [f"calls: {', '.join(repeated(n, k) for n, k in made.most_common(8))}"]
            return Failure("none", lines=tuple(lines if made else ["calls: none"]))

        return self._judge(f"a call of {short(name)}", check, because)

    def does_not_call(self, name: str, *, because: str | None = None) -> Self:
        """The runtime or driver function is not called.

        Mind its spelling: which functions there are, no trace tells. ValueError where it is that of
        a well-known function but for a letter.

        >>> expect(trace).does_not_call("cudaMalloc", because="the allocator is warm")
        """
        __tracebackhide__ = True
        (name,) = checks.checked_names((name,), "runtime call")
        self._subject.require_calls()
        spelling.check_call(name, self._subject.trace)

        def check(scope: Scope) -> Failure | None:
            found = matching(scope.calls(), name)
            return Failure(count(len(found), "call"), marks(found)) if found else None

        return self._judge(f"no call of {short(name)}", check, because)
