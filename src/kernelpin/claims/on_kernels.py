"""Claims about which kernels run: how many, of which family, the same as elsewhere, how built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Self

from kernelpin.claims import checks
from kernelpin.claims.base import ClaimsBase, subject_of
from kernelpin.claims.subject import Failure, Scope, View, marks, repeated, short, surplus
from kernelpin.kernel_name import decode_kernel_name
from kernelpin.render import clean, count, family_label, listing
from kernelpin.trace import Op, Step, Trace


class KernelClaims(ClaimsBase):
    """What runs on the GPU. Unless they say otherwise, claims count kernels proper."""

    __slots__ = ()

    def launches_nothing(self, *, because: str | None = None) -> Self:
        """No kernel, no memcpy, no memset.

        >>> expect(trace).under("aten::view").launches_nothing(because="only the shape changes")
        """
        __tracebackhide__ = True
        self._subject.require_gpu()

        def check(scope: Scope) -> Failure | None:
            found = scope.kernels
            return Failure(checks.activities(found), marks(found)) if found else None

        return self._judge("no launch", check, because)

    def launches(
        self,
        n: int,
        family: str | None = None,
        *,
        allowing: str | Collection[str] = (),
        because: str | None = None,
    ) -> Self:
        """Exactly n kernels of the family, and no other but what `allowing` names.

        `allowing` holds families and globs of kernel names; without a family, what it names does
        not count.

        >>> expect(trace).under("aten::linear").launches(1, "gemm", allowing="splitk_reduce")
        """
        __tracebackhide__ = True
        checks.checked_count(n)
        if family is not None:
            checks.checked_family(family)
        allowed = (allowing,) if isinstance(allowing, str) else tuple(allowing)
        self._subject.require_gpu()

        def check(scope: Scope) -> Failure | None:
            free = [k for k in scope.kernels if checks.is_allowed(k, allowed)]
            mine = checks.of_family(scope.kernels, family)
            if family is None:
                mine = [k for k in mine if k not in free]
            others = [k for k in scope.kernels if k.category == "kernel"]
            others = [k for k in others if k not in mine and k not in free]
            if len(mine) == n and not others:
                return None
            marked = {**surplus(mine, n), **marks(others)}
            total = len(mine) + len(others)
            if family is None or not total:
                found = count(total, "kernel") if total else "none"
            elif len(mine) == n and not free:
                found = count(total, "kernel")
            else:
                found = checks.kernels_of(family, len(mine))
                found += f" and {count(len(others), 'other')}" if others else ""
            return Failure(found, marked, ops=not total)

        but = f" but {listing([short(a) for a in allowed], 'or')}" if allowed else ""
        what = f"{checks.kernels_of(family, n)}{f' and no other{but}' if family or but else ''}"
        return self._judge(what, check, because)

    def launches_at_least(self, n: int, family: str, *, because: str | None = None) -> Self:
        """At least n kernels of the family, whatever else runs.

        >>> expect(trace).launches_at_least(3, "gemm")
        """
        __tracebackhide__ = True
        checks.checked_count(n, least=1)
        checks.checked_family(family)
        self._subject.require_gpu()

        def check(scope: Scope) -> Failure | None:
            found = len(checks.of_family(scope.kernels, family))
            return None if found >= n else Failure(str(found or "none"), ops=not scope.kernels)

        return self._judge(f"at least {checks.kernels_of(family, n)}", check, because)

    def launches_no(self, family: str, *, because: str | None = None) -> Self:
        """No kernel of the family; `copy` and `fill` take in memcpy and memset.

        >>> expect(trace).under("aten::linear").launches_no("elementwise")
        """
        __tracebackhide__ = True
        checks.checked_family(family)
        self._subject.require_gpu()

        def check(scope: Scope) -> Failure | None:
            found = checks.of_family(scope.kernels, family)
            return Failure(str(len(found)), marks(found)) if found else None

        return self._judge(checks.kernels_of(family, 0), check, because)

    def launches_the_same_kernels_as(
        self,
        other: Trace | Step | Op | ClaimsBase,
        families: Collection[str] | None = ("gemm",),
        *,
        because: str | None = None,
    ) -> Self:
        """The same kernels by full name, as often, a step against a step (a call against a call).

        Within `families`, None for all. Where the numbers of steps differ, the other's must agree
        among themselves. There must be something to compare.

        >>> expect(compiled).launches_the_same_kernels_as(eager, because="the GEMMs are cuBLAS's")
        """
        __tracebackhide__ = True
        wanted = (families,) if isinstance(families, str) else families
        if wanted is not None:
            for family in checks.checked_names(wanted, "family"):
                checks.checked_family(family)
        that = subject_of(other)
        self._subject.require_gpu()
        that.require_gpu()

        def names(scope: Scope) -> Counter[str]:
            of = [checks.of_family(scope.kernels, f) for f in (wanted or (None,))]
            return Counter(k.name for k in dict.fromkeys(k for found in of for k in found))

        there = [names(scope) for scope in that.scopes]
        source = short(that.trace.source.replace("\\", "/").rpartition("/")[2])
        place = f"{that.path} in {source}" if that.path else source
        labels = listing([family_label(f) for f in wanted or ()])
        what = f"the same {labels + ' ' if labels else ''}kernels as in {place}"
        here = self._subject.scopes
        if len(there) != len(here):
            if any(those != there[0] for those in there):
                self._subject.fail(
                    f"expected {what} {self._subject.place}, found "
                    f"{count(len(here), self._subject.noun)} against {len(there)} that differ",
                    (), because,
                )  # fmt: skip
            there = there[:1] * len(here)
        against = dict(zip(here, there, strict=True))

        def check(scope: Scope) -> Failure | None:
            mine, theirs = names(scope), against[scope]
            if not mine and not theirs:
                return Failure("none in either", ops=True)
            new, gone = mine - theirs, theirs - mine
            if not new and not gone:
                return None
            parts = [
                f"{n} {what}"
                for n, what in ((new.total(), "other"), (gone.total(), "missing"))
                if n
            ]
            lines = [f"only here:  {repeated(name, n)}" for name, n in new.items()]
            lines += [f"only there: {repeated(name, n)}" for name, n in gone.items()]
            marked = marks([k for k in scope.kernels if k.name in new], "only here")
            return Failure(listing(parts), marked, lines=tuple(lines))

        return self._judge(what, check, because)

    def has_layout(self, layout: str | Collection[str], *, because: str | None = None) -> Self:
        """Every GEMM kernel's name has that layout, or one of those; there is at least one.

        >>> expect(trace).under("aten::linear").has_layout({"tn", "TNT"})
        """
        __tracebackhide__ = True
        layouts = checks.checked_names((layout,) if isinstance(layout, str) else layout, "layout")
        self._subject.require_gpu()

        def check(scope: Scope) -> Failure | None:
            gemms = checks.of_family(scope.kernels, "gemm")
            if not gemms:
                return Failure("no GEMM kernel", ops=not scope.kernels)
            told = {k: decode_kernel_name(k.name).layout for k in gemms}
            wrong: dict[View, str] = {
                k: layout or "layout not told"
                for k, layout in told.items()
                if layout not in layouts
            }
            return Failure(listing(sorted(set(wrong.values()))), wrong) if wrong else None

        either = listing(sorted(map(clean, layouts)), "or")
        return self._judge(f"layout {either} of every GEMM kernel", check, because)

    def uses_tensor_cores(self, *, because: str | None = None) -> Self:
        """Every kernel that multiplies matrices runs on tensor cores, by its name; there is one.

        >>> expect(trace).uses_tensor_cores(because="the inputs are bf16")
        """
        __tracebackhide__ = True
        self._subject.require_gpu()

        def check(scope: Scope) -> Failure | None:
            products = [k for f in checks.PRODUCTS for k in checks.of_family(scope.kernels, f)]
            if not products:
                return Failure("no kernel that multiplies matrices", ops=not scope.kernels)
            told = {k: decode_kernel_name(k.name).tensor_cores for k in products}
            if without := [k for k, used in told.items() if used is False]:
                return Failure(f"{len(without)} without", marks(without, "no tensor cores"))
            if unknown := [k for k, used in told.items() if used is None]:
                return Failure(
                    f"{len(unknown)} whose name does not tell", marks(unknown, "does not tell")
                )
            return None

        return self._judge("tensor cores in every matrix product", check, because)

    def fuses(
        self,
        *ops: str,
        into: str = "triton_pointwise",
        times: int = 1,
        because: str | None = None,
    ) -> Self:
        """The ops are computed by `times` kernels that cover them all, and by none of their own.

        Told by the kernel's name, so for kernels that Inductor generates.

        >>> expect(compiled).fuses("gelu", "mul", because="the product never goes to memory")
        """
        __tracebackhide__ = True
        checks.checked_names(ops, "op")
        if len({op.removeprefix("aten::") for op in ops}) < 2:
            raise ValueError(f"found {short(ops[0])!r} alone to be fused; name at least two ops")
        checks.checked_family(into)
        checks.checked_count(times, least=1)
        self._subject.require_gpu()
        self._subject.require_nesting()  # an op's own kernels are those that lie in it
        names = listing([short(op.removeprefix("aten::")) for op in ops])

        def check(scope: Scope) -> Failure | None:
            return checks.fusion_failure(scope, ops, into, times)

        return self._judge(f"{names} fused into {checks.kernels_of(into, times)}", check, because)
