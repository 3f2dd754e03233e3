"""One test's results as they come in, and the verdict they allow."""

from __future__ import annotations

import dataclasses

from kernelpin.baselines import (
    MIN_PROCESSES,
    BaselineError,
    Found,
    Incomparable,
    Missing,
    Store,
)
from kernelpin.machine import Gpu
from kernelpin.render import clean, format_us
from kernelpin.session.case import Case, Settings
from kernelpin.session.compared import Compared
from kernelpin.session.ratio import judge_ratio
from kernelpin.stopwatch import KernelFigure, Samples
from kernelpin.verdict import (
    MIN_CONFIRM,
    MIN_DIFFERENCE_OTHER_CARD_US,
    MIN_DIFFERENCE_US,
    MIN_SCREEN_BASELINE,
    STORED,
    STORED_SAME_CARD,
    Outcome,
    Rule,
    Verdict,
    judge,
    judge_counts,
    judge_reference,
    needs_more,
)
from kernelpin.workers import WorkerResult

# A block measured while something else used the GPU is tried again, so often.
_ATTEMPTS = 3
_MOST_OF_A_FIGURE = 0.2
# Counts are exact where two processes agree on them.
_AGREEING = 2


class Evidence:
    """Gathers a test's results and judges them against its baseline.

    `error` says why there is no verdict although the test ran: processes that contradict each
    other, a refused limit, a damaged baseline file. `ending` is the result that ended the test
    otherwise (failure, skip, xfail).
    """

    def __init__(self, case: Case, store: Store, settings: Settings) -> None:
        self.case = case
        self.screened: list[WorkerResult] = []
        self.fresh: list[WorkerResult] = []
        self.ending: WorkerResult | None = None
        self.error: str | None = None
        self.verdict: Verdict | None = None
        self.baseline: Found | Missing | Incomparable | None = None
        self.compared: Compared | None = None
        self._told: list[WorkerResult] = []  # all, in time order
        self._doubted: list[WorkerResult] = []
        self._store = store
        self._settings = settings

    # -- what came in --------------------------------------------------------------------------

    def add(self, result: WorkerResult) -> None:
        """Take in what a process says; the first that is no measurement ends the test.

        A skip or xfail must not hide what another process measured: that is an error.
        """
        self._told.append(result)
        if result.outcome != "passed":
            self.ending = self.ending or result
        elif result.samples is None:
            self.error = "the test passed, and measured nothing: call stopwatch(...) in it"
        elif self.verdict is None:
            self.screened.append(result)
        else:
            self.fresh.append(result)
        if self.results and self.ending is not None and self.ending.outcome != "failed":
            self.error, self.ending = self.error or self._contradiction(self.ending), None

    def _contradiction(self, ending: WorkerResult) -> str:
        """Which process measured what, and which one ended otherwise, in time order."""
        measured = self.results[0]
        said = "skipped" if ending.outcome == "skipped" else "failed as expected"
        why = f": {clean(ending.message.splitlines()[0])}" if ending.message else ""
        told = {
            self._number(measured): (f"measured {_figure(measured.samples)}", ""),
            self._number(ending): (said, why),
        }
        parts = [f"{did} in process {number}{why}" for number, (did, why) in sorted(told.items())]
        return f"{', then '.join(parts)}; a test must end the same way in every process"

    def _number(self, result: WorkerResult) -> int:
        """The place of this very result among the processes, from 1."""
        return next(i for i, other in enumerate(self._told, 1) if other is result)

    @property
    def results(self) -> list[WorkerResult]:
        """Every result with figures, in time order."""
        return [*self.screened, *self.fresh]

    @property
    def was_measured(self) -> bool:
        """Whether any process said what became of the test."""
        return bool(self.results) or self.ending is not None or self.error is not None

    @property
    def first(self) -> Samples | None:
        """What the first process measured."""
        return self.results[0].samples if self.results else None

    @property
    def gpu(self) -> Gpu | None:
        return next((r.gpu for r in self.results if r.gpu is not None), None)

    @property
    def usable(self) -> list[Samples]:
        """The samples that count: none that something else disturbed.

        A suspect was chosen for its slow first figure, which therefore says nothing more: once it
        is measured in fresh processes, they alone count.
        """
        chosen = self.fresh if self.fresh and len(self.screened) < MIN_CONFIRM else self.results
        return [r.samples for r in chosen if r.samples is not None and r.samples.reason is None]

    @property
    def figures(self) -> list[float]:
        return [samples.figure for samples in self.usable if samples.values]

    @property
    def kernels(self) -> tuple[KernelFigure, ...] | None:
        """The kernels as last listed."""
        listed = [r.samples.kernels for r in self.results if r.samples and r.samples.kernels]
        return listed[-1] if listed else None

    @property
    def changes(self) -> tuple[str, ...]:
        """What of the machine is not as it was when the baseline was recorded."""
        return self.baseline.changes if isinstance(self.baseline, Found) else ()

    @property
    def metric(self) -> str | None:
        return None if self.first is None else self.first.metric

    # -- judging -------------------------------------------------------------------------------

    @property
    def rule(self) -> Rule | None:
        """The rule of the stored baseline with the test's own limit; ValueError where refused."""
        found = self.baseline
        if not isinstance(found, Found):
            return None
        rule = STORED_SAME_CARD if found.same_card else STORED
        limit = self.case.limit if self.case.limit is not None else found.entry.limit
        return rule if limit is None else rule.with_limit(limit, found.entry.spread)

    def judge(self, *, final: bool = False) -> None:
        """Set `verdict` from what is there; `final`: nothing more will come.

        A decided one stands: processes that are measured only to be recorded do not re-roll it.
        """
        if self.ending is not None or self.error is not None:
            self.verdict = None
            return
        if self.verdict is not None and self.verdict.decided:
            return
        if not self.results:
            self.verdict = Verdict(Outcome.UNCLEAR, "the budget ended before it was measured")
            return
        try:
            found, base = self._judged(final), self.compared
            self.verdict = found if base is None else base.applied_to(found, self.baseline)
        except (ValueError, BaselineError) as error:
            self.error, self.verdict = str(error), None

    def _judged(self, final: bool) -> Verdict:
        first = self.first
        assert first is not None
        if first.metric == "host_ratio":
            return self._judged_ratio(final)
        gpu = self.gpu
        if gpu is None:
            return Verdict(Outcome.NO_BASELINE, "no GPU: baselines are kept for each kind of GPU")
        if self.baseline is None:
            self.baseline = self._store.lookup(
                gpu,
                self.case.nodeid,
                first.metric,  # type: ignore[arg-type]  # decoded as text, checked by the store
                input=first.input,
                l2=first.l2,
                method=first.method,
            )
        found = self.baseline
        if isinstance(found, Missing):
            return Verdict(Outcome.NO_BASELINE, found.reason)
        if isinstance(found, Incomparable):
            return Verdict(Outcome.INCOMPARABLE, found.reason)
        if not self.usable:
            return self._disturbed(final, found)
        if first.metric == "counts":
            verdicts = [judge_counts(found.counts or {}, it.counts or {}) for it in self.usable]
            changed = [verdict for verdict in verdicts if verdict.outcome is not Outcome.SAME]
            return (changed or verdicts)[-1]
        return self.judged_stored(found, self.figures, final=final)

    def judged_stored(self, found: Found, figures: list[float], *, final: bool) -> Verdict:
        """Judge these figures against the stored baseline; ValueError on a refused limit."""
        if found.is_reference:
            assert found.entry.band is not None
            return judge_reference(found.entry.median, found.entry.band, figures, final=final)
        rule = self.rule
        assert rule is not None
        if len(figures) == 1 and len(found.processes) < MIN_SCREEN_BASELINE:
            return Verdict(
                Outcome.UNCLEAR,
                f"one process against a baseline of {len(found.processes)} decides nothing",
                baseline=found.entry.median,
                now=figures[0],
                n_baseline=len(found.processes),
                n_now=1,
                rule=rule,
                decided=final,
            )
        least = self._least_difference(found)
        verdict = judge(found.processes, figures, rule, min_difference=least, final=final)
        capped = sum(samples.power_capped for samples in self.usable) > len(self.usable) / 2
        if verdict.outcome is Outcome.SLOWER and capped and not found.entry.power_capped:
            reason = f"{verdict.reason}; but the power cap held the clock back, and did not before"
            return dataclasses.replace(verdict, outcome=Outcome.UNCLEAR, reason=reason)
        return verdict

    def _least_difference(self, found: Found) -> float:
        """What is never SLOWER, in µs: on another card, what cards differ by, a kernel.

        At most a fifth, since kernels can run beside each other; a test's own limit stands.
        """
        if found.same_card or (self.case.limit or found.entry.limit) is not None:
            return MIN_DIFFERENCE_US
        gap = MIN_DIFFERENCE_OTHER_CARD_US
        if found.entry.metric == "kernel_us":
            return gap
        many = sum(k.count for k in found.entry.kernels if not k.name.startswith("Mem"))
        return min(gap * max(1, many), max(gap, _MOST_OF_A_FIGURE * found.entry.median))

    def _judged_ratio(self, final: bool) -> Verdict:
        other = self._stored_otherwise()
        if other is not None:
            return other
        result = self.results[-1]
        if not self.usable:
            return self._disturbed(final, None)
        return judge_ratio(self.figures, result.below, result.above, final=final)

    def _stored_otherwise(self) -> Verdict | None:
        """That the baseline is of a time or of counts, which a ratio's bounds do not replace."""
        if self.gpu is None:
            return None
        if self.baseline is None:
            self.baseline = self._store.lookup(self.gpu, self.case.nodeid, "host_ratio")
        found = self.baseline
        if not isinstance(found, Incomparable) or found.entry.metric == "host_ratio":
            return None
        file = self._store.file_for(self.gpu.slug, self.case.nodeid)
        return Verdict(
            Outcome.INCOMPARABLE,
            f"the baseline is of something else: metric host_ratio, was {found.entry.metric}; "
            f"measure that again, or delete the test's entry in {file}",
        )

    def _disturbed(self, final: bool, found: Found | None) -> Verdict:
        """That nothing undisturbed was measured; with what was, so that CI sees how slow it is.

        A change that heats the card is measured while throttled each time. Another process slows
        whatever runs: what was measured beside one estimates nothing.
        """
        reasons = [r.samples.reason for r in self.results if r.samples and r.samples.reason]
        enough = final or len(reasons) >= _ATTEMPTS
        unclear = Verdict(Outcome.UNCLEAR, reasons[-1] or "disturbed", decided=enough)
        samples = [r.samples for r in self.results if r.samples is not None]
        figures = [each.figure for each in samples if each.reason is None and each.values]
        alone = [each for each in samples if not any(s.strangers for s in each.state)]
        figures = figures or [each.figure for each in alone if each.values]
        if found is None or found.counts is not None or not figures:
            return unclear
        estimate = self.judged_stored(found, figures, final=True)
        return dataclasses.replace(
            estimate, outcome=unclear.outcome, reason=unclear.reason, decided=enough
        )

    # -- doubt -----------------------------------------------------------------------------------

    @property
    def is_acquitted(self) -> bool:
        """Whether a time was let pass by fewer processes than it takes to convict."""
        verdict = self.verdict
        return (
            verdict is not None
            and verdict.decided
            and verdict.outcome in (Outcome.SAME, Outcome.FASTER)
            and self.metric == "device_us"
            and len(self.results) < MIN_CONFIRM
        )

    @property
    def is_faster(self) -> bool:
        return self.verdict is not None and self.verdict.outcome is Outcome.FASTER

    def doubt(self) -> None:
        """Set aside what acquitted it."""
        self._doubted, self.screened, self.verdict = self.screened, [], None

    def end_doubt(self) -> None:
        """Take it back where nothing came in its place."""
        if not self.was_measured:
            self.screened = self._doubted
            self.verdict = None
            self.judge()

    # -- what is still to be measured ------------------------------------------------------------

    def wants_to_decide(self) -> int:
        """How many more processes to measure before the next verdict; 0: this one stands."""
        verdict = self.verdict
        if verdict is None or verdict.decided or not self.results:
            return 0
        if not self.usable:
            return 1
        if len(self.screened) < MIN_CONFIRM and not self.fresh:
            return MIN_CONFIRM
        missing = MIN_CONFIRM - len(self.figures)
        return missing if missing > 0 else needs_more(verdict)

    @property
    def can_be_paired(self) -> bool:
        """Whether base can measure the same: a time, and no other end of the test."""
        return (
            self.ending is None
            and self.error is None
            and self.verdict is not None
            and self.metric in ("device_us", "kernel_us")
        )

    def take_pairs(self, compared: Compared) -> None:
        """Take in what base and head came to, and judge by both comparisons."""
        self.compared = compared
        for result in compared.head:
            self.add(result)
        if compared.verdict is not None and self.verdict is not None:
            self.verdict = dataclasses.replace(self.verdict, decided=False)
            self.judge(final=True)

    def wants_to_record(self) -> int:
        """How many more processes a baseline of these figures needs."""
        if not self.is_to_be_recorded or self.metric in ("host_ratio", None):
            return 0
        if self.metric == "counts":
            return max(0, _AGREEING - len(self.recorded))
        if len(self.results) - len(self.usable) >= len(self.usable) + _ATTEMPTS:
            return 0  # a GPU that is never left alone is not waited for
        return max(0, max(MIN_PROCESSES, self._settings.processes) - len(self.recorded))

    @property
    def is_to_be_recorded(self) -> bool:
        """Whether this run makes a baseline of the figures, stored or proposed."""
        verdict = self.verdict
        if verdict is None or self.gpu is None or self.metric == "host_ratio":
            return False
        new = verdict.outcome is Outcome.NO_BASELINE
        failed = new or verdict.outcome in (Outcome.SLOWER, Outcome.INCOMPARABLE)
        match self._settings.update:
            case "all":
                return True
            case "failed":
                return failed
            case "new":
                return new
        return self._settings.proposed is not None and failed

    @property
    def recorded(self) -> list[Samples]:
        """The samples a baseline would be made of: every undisturbed process."""
        return [r.samples for r in self.results if r.samples and r.samples.reason is None]


def _figure(samples: Samples | None) -> str:
    """A process's figure in its unit."""
    if samples is None or not samples.values:
        return "counts"
    figure = samples.figure
    return f"{figure:.3f} ×" if samples.metric == "host_ratio" else format_us(figure)
