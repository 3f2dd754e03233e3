"""What is said of a test that is not the same as its baseline: line 1, the evidence, what to do."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median

from kernelpin.baselines import Found, KernelEntry
from kernelpin.kernel_name import decode_kernel_name
from kernelpin.limits import distance
from kernelpin.render import clean, elide, format_change, format_us, pad, table
from kernelpin.session.case import Settings
from kernelpin.session.evidence import Evidence
from kernelpin.stopwatch import KernelFigure
from kernelpin.verdict import Outcome, Verdict

_LABEL = 13
_KERNELS = 6
# Of one kernel's time in a call: a trace's durations differ by some percents by themselves.
_SLOWER = 1.1
_SLOWER_US = 0.5
_BLOCKS = (
    "the same Triton kernel, slower: Inductor races block sizes on first use and keeps the winner "
    'in its cache; options={"triton.autotune_pointwise": False} fixes the choice'
)


def failure(
    test: Evidence,
    verdict: Verdict,
    settings: Settings,
    *,
    unclear: str | None = None,
    brief: bool = False,
) -> str:
    """The whole message of a failed timing; its first line stands alone."""
    lines = [headline(test, verdict, unclear)]
    if not (brief and verdict.outcome is Outcome.NO_BASELINE):
        lines += [f"  {line}" for line in _evidence(test, verdict, settings)]
    return "\n".join(lines)


def headline(test: Evidence, verdict: Verdict, unclear: str | None = None) -> str:
    """Line 1: what was found, what was allowed."""
    if verdict.outcome is Outcome.SLOWER and test.metric == "counts":
        return f"counts differ from the baseline: {verdict.reason}"
    if verdict.outcome is Outcome.SLOWER and test.metric == "host_ratio":
        return f"the ratio is out of bounds: {verdict.reason}"
    if verdict.outcome is Outcome.SLOWER and (paired := _slower_than_base(test)) is not None:
        return f"slower than {test.compared.ref if test.compared else 'base'}: {_change(paired)}"
    if verdict.outcome is Outcome.SLOWER:
        return f"slower than the {_what(test)}: {_change(verdict)}"
    if verdict.outcome is Outcome.UNCLEAR:
        said = f"unclear: {verdict.reason}"
        if unclear is not None:
            return f"{said} ({unclear})"
        if verdict.baseline is None:
            return said  # a bound, which the reason names already
        return f"{said} (the estimate, {_change(verdict)}, is beyond the limit)"
    if verdict.outcome is Outcome.NO_BASELINE:
        return f"no baseline: {verdict.reason}"
    if verdict.outcome is Outcome.INCOMPARABLE:
        return f"not comparable: {verdict.reason}"
    return f"{verdict.outcome.replace('_', ' ')}: {verdict.reason}"


def skip(test: Evidence, verdict: Verdict) -> str:
    """Why a test skips on a workstation, with the command that changes it."""
    if test.gpu is None or test.metric == "host_ratio":
        return verdict.reason
    return f"{verdict.reason}; record one: {record_command(test)}"


def record_command(test: Evidence) -> str:
    return f"kernelpin record -- {shlex.quote(test.case.nodeid)}"


def shown(path: Path) -> str:
    """A path as the user would type it here."""
    with contextlib.suppress(ValueError):
        return path.relative_to(Path.cwd()).as_posix()
    return str(path)


def machine_notes(test: Evidence) -> tuple[str, ...]:
    """Clock, what held it back, and what of the machine is new, in the words of a message."""
    if test.first is None or test.gpu is None:
        return ()
    notes: list[str] = []
    clocks = [s.sm_clock_mhz for s in test.recorded if s.sm_clock_mhz is not None]
    if clocks:
        was = _baseline_clock(test)
        told = f"SM {median(clocks):.0f} MHz" + (f" (baseline {was})" if was is not None else "")
        capped = any(samples.power_capped for samples in test.recorded)
        notes.append(f"{told}, {'power-capped' if capped else 'no throttling'}")
    disturbed = [r.samples.reason for r in test.results if r.samples and r.samples.reason]
    if disturbed:
        times = f"{len(disturbed)} of {len(test.results)} processes"
        notes.append(f"{times} do not count: {disturbed[-1]}")
    notes += test.changes
    note = test.first.note
    return tuple([*notes, note] if note else notes)


def _what(test: Evidence) -> str:
    found = test.baseline
    if isinstance(found, Found) and found.is_reference:
        return "published reference"
    return "baseline"


def _change(verdict: Verdict) -> str:
    if verdict.now is None or verdict.baseline is None or verdict.ratio is None:
        return verdict.reason
    limit = f" (limit +{100 * verdict.rule.limit:.3g} %)" if verdict.rule is not None else ""
    now, was = format_us(verdict.now), format_us(verdict.baseline)
    return f"{now}, was {was}: {format_change(verdict.ratio)}{limit}"


def _evidence(test: Evidence, verdict: Verdict, settings: Settings) -> Iterable[str]:
    yield from _figures(test, verdict)
    has_baseline = verdict.baseline is not None
    if verdict.detectable is not None and verdict.outcome is Outcome.UNCLEAR and has_baseline:
        yield _labelled("detectable", f"{format_change(1 + verdict.detectable)} or more")
    if upgraded := _excuses_nothing(test, verdict):
        yield _labelled("base", upgraded)
    if changed := kernel_changes(test):
        yield _labelled("kernels", changed)
    if any(name.startswith("triton_") for name in _slower_kernels(*_listed(test))):
        yield _labelled("hint", _BLOCKS)
    if notes := machine_notes(test):
        yield _labelled("machine", "; ".join(notes))
    if far := _distance(test, verdict):
        yield _labelled("limit", far)
    found = test.baseline
    if isinstance(found, Found) and found.is_reference:
        yield _labelled("reference", clean(found.entry.cite or ""))
    if test.case.because:
        yield _labelled("because", clean(test.case.because))
    yield from _next(test, verdict, settings)


def _slower_than_base(test: Evidence) -> Verdict | None:
    """The paired verdict, where it is what fails the test."""
    paired = None if test.compared is None else test.compared.verdict
    return paired if paired is not None and paired.outcome is Outcome.SLOWER else None


def _excuses_nothing(test: Evidence, verdict: Verdict) -> str | None:
    """That base is as slow, where an upgrade of packages may be why."""
    it = test.compared
    if verdict.outcome is not Outcome.SLOWER or it is None or it.verdict is None:
        return None
    upgraded = it.upgraded(test.baseline)
    if it.verdict.outcome is not Outcome.ALREADY_SLOWER or not upgraded:
        return None
    return f"{it.ref} is as slow with the same packages ({', '.join(upgraded)}), which came since"


def _figures(test: Evidence, verdict: Verdict) -> Iterable[str]:
    paired = _slower_than_base(test)
    if paired is not None and paired.baseline is not None and paired.now is not None:
        rows = [
            ["", "median", "95 % interval", "pairs"],
            ["base", format_us(paired.baseline), _span(paired.baseline_interval), ""],
            ["head", format_us(paired.now), _span(paired.now_interval), str(paired.n_now)],
        ]
        yield from (line.rstrip() for line in table(rows))
    if verdict.baseline is None or verdict.now is None:
        return
    found = test.baseline
    origin = ("", "")
    if isinstance(found, Found) and found.entry.recordings:
        last = found.entry.recordings[-1]
        origin = (last.date, last.commit or "")
    rows = [
        ["", "median", "95 % interval", "processes", "", ""],
        [
            "baseline",
            format_us(verdict.baseline),
            _span(verdict.baseline_interval),
            str(verdict.n_baseline or ""),
            *origin,
        ],
        ["now", format_us(verdict.now), _span(verdict.now_interval), str(verdict.n_now), "", ""],
    ]
    yield from (line.rstrip() for line in table(rows))


def _span(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return ""
    low, high = (format_us(end) for end in interval)
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') else low} – {high}"


def _labelled(label: str, text: str) -> str:
    return f"{pad(f'{label}:', _LABEL)}{text}"


def _next(test: Evidence, verdict: Verdict, settings: Settings) -> Iterable[str]:
    if test.metric == "host_ratio" or test.gpu is None:
        return
    proposed = settings.proposed
    if verdict.outcome is Outcome.UNCLEAR:
        yield _labelled("next", "measure again; a larger --kernelpin-budget allows more processes")
    elif proposed is not None:
        reason = ' --reason "…"' if verdict.outcome is Outcome.SLOWER else ""
        label = "if intended" if verdict.outcome is Outcome.SLOWER else "to record"
        yield _labelled(label, f"kernelpin baselines accept {shlex.quote(shown(proposed))}{reason}")
    else:
        label = "if intended" if verdict.outcome is Outcome.SLOWER else "to record"
        yield _labelled(label, record_command(test))


def _baseline_clock(test: Evidence) -> int | None:
    found = test.baseline
    if not isinstance(found, Found) or not found.entry.recordings:
        return None
    return found.entry.recordings[-1].sm_clock_mhz


def _distance(test: Evidence, verdict: Verdict) -> str | None:
    found = test.baseline
    work = test.case.work or (found.entry.work if isinstance(found, Found) else None)
    if work is None or verdict.now is None or test.gpu is None:
        return None
    try:
        return distance(verdict.now, work.flops, work.bytes, work.dtype, test.gpu.name)
    except ValueError as error:
        return str(error)


def kernel_changes(test: Evidence) -> str:
    """Which kernels are new, gone or slower, by the names a reader knows; empty: none listed."""
    return "; ".join(_compared(*_listed(test))[:_KERNELS])


_Listed = Mapping[str, KernelEntry | KernelFigure]


def _listed(test: Evidence) -> tuple[_Listed, _Listed]:
    """The kernels before and now, by name; both empty where either is not known."""
    compared = test.compared
    if compared is not None and compared.kernels_base and compared.kernels_head:
        return _by_name(compared.kernels_base), _by_name(compared.kernels_head)
    found, now = test.baseline, test.kernels
    if not isinstance(found, Found) or not found.entry.kernels or now is None:
        return {}, {}
    return _by_name(found.entry.kernels), _by_name(now)


def _by_name(kernels: Iterable[KernelEntry | KernelFigure]) -> _Listed:
    return {kernel.name: kernel for kernel in kernels}


def _slower_kernels(was: _Listed, is_now: _Listed) -> list[str]:
    """The kernels that ran before too, and take longer by more than traces differ."""
    slower: list[str] = []
    for name, new in is_now.items():
        old = was.get(name)
        if old is None or old.median_us is None or new.median_us is None:
            continue
        before, now = old.count * old.median_us, new.count * new.median_us
        if now > before * _SLOWER and now - before > _SLOWER_US:
            slower.append(name)
    return slower


def _compared(was: _Listed, is_now: _Listed) -> list[str]:
    """A text a kernel, what changed first."""
    slower = _slower_kernels(was, is_now)
    told: list[tuple[int, str]] = []
    for name in dict.fromkeys([*is_now, *was]):
        old, new = was.get(name), is_now.get(name)
        short = elide(clean(decode_kernel_name(name).short or name))
        times = f"{_time(old)} → {_time(new)}"
        if old is None:
            told.append((0, f"{short} {times}  ← new"))
        elif new is None:
            told.append((1, f"{short} {times}  ← gone"))
        elif old.count != new.count:
            told.append((2, f"{short} {times}, {old.count} → {new.count} a call"))
        elif name in slower:
            told.append((3, f"{short} {times}  ← slower"))
        else:
            told.append((4, f"{short} {times}"))
    return [text for _, text in sorted(told, key=lambda item: item[0])]


def _time(kernel: KernelEntry | KernelFigure | None) -> str:
    if kernel is None or kernel.median_us is None:
        return "—"
    return format_us(kernel.median_us)
