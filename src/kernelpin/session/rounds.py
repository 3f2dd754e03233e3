"""The measuring rounds of a session: screen, measure suspects again, judge, propose."""

from __future__ import annotations

import datetime
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelpin.baselines import BaselineError, Measurement, Proposal, Store, accept
from kernelpin.report import Difference
from kernelpin.session.case import Case, Settings
from kernelpin.session.compared import Base, Bases
from kernelpin.session.continued import why_mixed
from kernelpin.session.evidence import Evidence
from kernelpin.session.judgement import Judgement, judgement_of
from kernelpin.session.pairing import compare, not_compared
from kernelpin.verdict import LOOKS, Outcome, too_many_unclear
from kernelpin.workers import Budget, Source


@dataclass(frozen=True, slots=True)
class Judged:
    """What measuring came to: a judgement a test, and what concerns all of them.

    `proposed`: baselines lie in the report's folder; `recorded`: entries that were stored,
    of which `known` were before; `useless`: tests whose processes make no baseline together;
    `changes`: how this machine differs from the one that recorded, once a test.
    """

    judgements: dict[str, Judgement]
    gpu: str | None = None
    slug: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    changes: tuple[str, ...] = ()
    proposed: int = 0
    recorded: int = 0
    known: int = 0
    useless: tuple[str, ...] = ()
    unclear: str | None = None
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


class Session:
    """Measures the tests of a run and judges each; nothing here knows pytest or a GPU."""

    def __init__(
        self, settings: Settings, source: Source, budget: Budget, bases: Bases | None = None
    ) -> None:
        self.settings = settings
        self.source = source
        self.budget = budget
        self.bases = bases
        self.store = Store(settings.baselines)
        self._warnings: list[str] = []
        self._known = 0
        self._useless: dict[str, str] = {}

    def judge(self, cases: Sequence[Case]) -> Judged:
        """Screen all in as many processes as asked for, then go on with what does not decide."""
        tests = {case.nodeid: Evidence(case, self.store, self.settings) for case in cases}
        # One process tells what is to be recorded: times need eight, counts two, and ratios none.
        recording = self.settings.update == "all"
        processes = 1 if recording else self.settings.processes
        self._measure(tests.values(), processes, "measuring", kernels=False)
        for test in tests.values():
            if not test.was_measured and self.budget.left > 0:
                test.error = "no measuring process said anything of this test"
        if not recording:
            self._screen_again(tests.values())
            self._compare(tests)
            self._decide(tests.values())
        self._record_more(tests.values())
        for test in tests.values():
            test.judge(final=True)
        return self._told(list(tests.values()))

    # -- rounds --------------------------------------------------------------------------------

    def _measure(
        self,
        tests: Iterable[Evidence],
        processes: int,
        what: str,
        *,
        kernels: bool = True,
        likely: int = 0,
    ) -> None:
        """Measure each test in that many processes, and judge it by what is there then.

        With `kernels`, the last of them lists the kernels that are not known yet, so that it can
        be told what changed. `likely`: how many processes may well be asked for after these.
        """
        wanted = list(tests)
        by_id = {test.case.nodeid: test for test in wanted}
        if processes > 1 and not any(test.case.cpu for test in wanted):
            # Not beside what runs on the CPU, which they would slow.
            self.source.prepare(list(by_id), processes + likely)
        for number in range(1, processes + 1):
            if self.budget.left <= 0:
                break
            listed = kernels and number == processes and any(not test.kernels for test in wanted)
            told = f"{what}, process {number} of {processes}:" if processes > 1 else what
            results = self.source.measure(list(by_id), kernels=listed, what=told)
            for nodeid, found in results.items():
                by_id[nodeid].add(found)
        for test in wanted:
            test.judge()

    def _screen_again(self, tests: Iterable[Evidence]) -> None:
        """Where a process ran faster than the baselines', let another one acquit in its place.

        What lies between two kernels of a graph can become 0.2 µs shorter in the midst of a
        process, which hides a slowdown of 5 % in a test of 4 µs. Where a test did become faster,
        this costs one process more. Suspects stay suspects.
        """
        if not any(test.is_acquitted and test.is_faster for test in tests):
            return
        acquitted = [test for test in tests if test.is_acquitted]
        for test in acquitted:
            test.doubt()
        self._measure(acquitted, 1, "screening again", kernels=False)
        for test in acquitted:
            test.end_doubt()

    def _compare(self, tests: Mapping[str, Evidence]) -> None:
        """Measure suspects (or all) in pairs of base and head."""
        wanted = [
            nodeid
            for nodeid, test in tests.items()
            if test.can_be_paired and (self.settings.base_all or test.wants_to_decide())
        ]
        if self.bases is None or not wanted or self.budget.left <= 0:
            return
        with self.bases() as base:
            if not isinstance(base, Base):
                self._warnings.append(f"not compared with a base: {base.reason}")
                return
            found = compare(tests, wanted, base, self.source, self.budget)
            for nodeid, compared in found.items():
                tests[nodeid].take_pairs(compared)
            self._warnings += not_compared(found.values())

    def _decide(self, tests: Iterable[Evidence]) -> None:
        """Measure suspects in fresh processes until they are decided or the budget ends."""
        while self.budget.left > 0:
            suspects = [test for test in tests if test.wants_to_decide()]
            if not suspects:
                return
            before = sum(len(test.results) for test in suspects)
            fewest = min(test.wants_to_decide() for test in suspects)
            self._measure(suspects, fewest, "measuring again", likely=LOOKS[1] - LOOKS[0])
            if sum(len(test.results) for test in suspects) == before:
                return  # a process that yields nothing will yield nothing again

    def _record_more(self, tests: Iterable[Evidence]) -> None:
        """Measure what a baseline is made of in as many processes as one needs."""
        while self.budget.left > 0:
            short = [test for test in tests if test.wants_to_record()]
            if not short:
                return
            before = sum(len(test.results) for test in short)
            self._measure(short, min(test.wants_to_record() for test in short), "recording")
            if sum(len(test.results) for test in short) == before:
                return

    # -- what comes of it ------------------------------------------------------------------------

    def _told(self, tests: list[Evidence]) -> Judged:
        verdicts = [test.verdict for test in tests if test.verdict is not None]
        judged = [v for v in verdicts if v.outcome is not Outcome.NO_BASELINE]
        unclear = too_many_unclear(judged) if self.settings.ci and judged else None
        mixed = {test.case.nodeid: why_mixed(test) for test in tests if test.is_to_be_recorded}
        self._useless = {nodeid: why for nodeid, why in mixed.items() if why is not None}
        recorded = self._update(tests)
        proposed = self._propose(tests)
        told_without = False
        judgements: dict[str, Judgement] = {}
        for test in tests:
            judgement = judgement_of(
                test,
                self.settings,
                unclear=unclear,
                refused=recorded.get(test.case.nodeid),
                recorded=test.case.nodeid in recorded,
                brief=told_without,
            )
            told_without = told_without or judgement.tells_how_to_record
            judgements[test.case.nodeid] = judgement
        gpu = next((test.gpu for test in tests if test.gpu is not None), None)
        environment: list[tuple[str, str | None]] = []
        if gpu is not None:
            environment = [
                ("driver", gpu.driver),
                ("CUDA", gpu.cuda),
                ("torch", gpu.torch),
                ("triton", gpu.triton),
            ]
        return Judged(
            judgements=judgements,
            gpu=None if gpu is None else gpu.name,
            slug=None if gpu is None else gpu.slug,
            environment=tuple((name, value) for name, value in environment if value),
            changes=tuple(change for test in tests for change in test.changes),
            proposed=proposed,
            recorded=sum(why is None for why in recorded.values()),
            known=self._known,
            useless=tuple(self._useless),
            unclear=unclear,
            warnings=tuple(self._warnings),
            seconds=self.budget.used,
        )

    def _update(self, tests: Sequence[Evidence]) -> dict[str, str | None]:
        """Store what was to be recorded; why not, a test, or None where it was."""
        if self.settings.update == "none":
            return {}
        proposals = self._proposals(tests)
        told: dict[str, str | None] = {}
        for test in tests:
            if test.is_to_be_recorded or (test.verdict and not test.was_measured):
                told[test.case.nodeid] = None if test.recorded else why_unrecorded(test)
        try:
            done = accept(
                self.store,
                self.store.proposed(proposals, self._useless).values(),
                reason=self.settings.reason or f"--kernelpin-update={self.settings.update}",
            )
        except (BaselineError, OSError) as error:
            return {id_: self._useless.get(id_) or why or str(error) for id_, why in told.items()}
        self._known = len(done.unchanged)
        told.update(self._useless)
        told.update({refusal.test_id: refusal.why for refusal in done.refusals})
        return told

    def _propose(self, tests: Iterable[Evidence]) -> int:
        """Write the baselines as they would be beside the report; how many files."""
        folder = self.settings.proposed
        if folder is None:
            return 0
        proposals = self._proposals(tests)
        try:
            return self.store.write_proposed(folder, proposals) if proposals else 0
        except (BaselineError, OSError) as error:
            self._warnings.append(f"nothing is proposed: {error}")
            return 0

    def _proposals(self, tests: Iterable[Evidence]) -> list[Proposal]:
        wanted = [
            test
            for test in tests
            if test.recorded and test.is_to_be_recorded and test.case.nodeid not in self._useless
        ]
        if not wanted:
            return []
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        commit = commit_of(self.settings.rootdir)
        return [
            Proposal(
                Measurement(
                    test_id=test.case.nodeid,
                    gpu=test.gpu,  # type: ignore[arg-type]  # none without a GPU is to be recorded
                    samples=test.recorded,
                    date=date,
                    commit=commit,
                    kernels=test.kernels,
                    work=test.case.work,
                ),
                verdict="RECORDED" if self.settings.update != "none" else _name(test),
                reason=test.verdict.reason if test.verdict else None,
                mode="add" if self.settings.add else "replace",
            )
            for test in wanted
        ]


def differences_of(changes: Sequence[str]) -> tuple[Difference, ...]:
    """What `torch 2.11.0 → 2.13.0` says, each once, with how many tests it concerns."""
    told: list[Difference] = []
    for change, tests in Counter(changes).items():
        before, _, now = change.partition(" → ")
        what, _, was = before.rpartition(" ")
        told.append(Difference(what, was, now, tests))
    return tuple(told)


def why_unrecorded(test: Evidence) -> str:
    """Why a test that was to be recorded has no figure to store."""
    reasons = [r.samples.reason for r in test.results if r.samples and r.samples.reason]
    return reasons[-1] if reasons else "the budget ended before it was measured"


def _name(test: Evidence) -> str:
    return "" if test.verdict is None else test.verdict.outcome.name


def commit_of(folder: Path) -> str | None:
    """The commit checked out there, short, and `-dirty` where files of it are changed.

    None where there is no git or no repository.
    """
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
