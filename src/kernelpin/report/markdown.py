"""The summary a reviewer reads: what got slower or runs other kernels, why, how to accept it."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Sequence

from kernelpin.report.rows import Kernel, Paired, Report, Row, headline, worst_first

LIMIT_BYTES = 900_000  # GitHub drops a step summary of more than 1 MiB altogether
_HEADER = (
    "| test | baseline | now | change (95 % interval) | limit | kernels | verdict |\n"
    "| --- | ---: | ---: | ---: | ---: | --- | --- |\n"
)
_MESSAGES = 10  # failures told in full; the table has them all
_MESSAGE_CHARS = 6_000
_NAME_CHARS = 160
_KERNEL_LINES = 4
_NOTES = 20  # warnings, problems and differences shown each


def write_summary(report: Report, limit_bytes: int = LIMIT_BYTES) -> str:
    """The summary as GitHub markdown, at most `limit_bytes` long in UTF-8.

    Headline, what failed the session, the rows a reviewer must see (failures first), their
    messages, how to accept, what differs in the environment, and the unchanged rows folded.
    What does not fit is cut from the folded part first, then from the messages, then from the
    end of the table, and each cut says how much is missing. Names show as text.
    """
    rows = worst_first(report.rows)
    news = [row for row in rows if row.is_news]
    skipped = [row for row in rows if not row.is_news and row.outcome == "skipped"]
    quiet = [row for row in rows if not row.is_news and row.outcome != "skipped"]
    live = [row for row in quiet if row.source != "recorded"]
    recorded = [row for row in quiet if row.source == "recorded"]

    room = _Room(limit_bytes)
    head = room.take(_head(report))
    tail = room.take(_accept(report) + _differences(report) + _footer(report))
    table = room.table(news, "rows that need a look")
    messages = room.blocks([_message(row) for row in news if row.failed and row.message])
    folded = [
        room.folded(live, "unchanged"),
        room.folded(recorded, "unchanged on recorded traces"),
        room.folded(skipped, "skipped"),
    ]
    return head + table + messages + tail + "".join(folded)


def in_code(name: str, limit: int = _NAME_CHARS) -> str:
    """A name as inline code that any markdown table shows as the very text it is.

    Not a backtick span: those cannot hold every backtick, pipe and backslash. What markdown or
    HTML would read is written as a character reference, control characters as their picture.
    """
    return f"<code>{_literal(_elided(name, limit))}</code>"


def in_text(text: str, limit: int = 500) -> str:
    """A sentence that may hold names, as prose: no markup, no link, no mention of a user."""
    return _literal(_elided(text, limit)).replace("@", "&#64;&#8288;")


def fenced(text: str, limit: int = _MESSAGE_CHARS) -> str:
    """Several lines as a code block that none of them can end."""
    lines = [_printable(line) for line in _cut(text, limit).splitlines()]
    runs = [len(run) for line in lines for run in re.findall("`+", line)]
    fence = "`" * max(3, 1 + max(runs, default=0))
    return "\n".join((f"{fence}text", *lines, fence)) + "\n"


class _Room:
    """The bytes that are left, handed out in order of importance."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def take(self, text: str) -> str:
        self.left -= len(text.encode())
        return text

    def fits(self, text: str, reserve: int = 0) -> bool:
        return len(text.encode()) <= self.left - reserve

    def table(self, rows: Sequence[Row], what: str) -> str:
        """Rows until the room ends, and how many are missing."""
        if not rows:
            return ""
        missing = f"\n{len(rows)} {what} do not fit here: see report.json.\n\n"
        if not self.fits(_HEADER + missing):
            return self.take(missing) if self.fits(missing) else ""
        out = [self.take(_HEADER)]
        for index, row in enumerate(rows):
            line = _table_row(row)
            if not self.fits(line, reserve=len(missing.encode())):
                out.append(self.take(missing.replace(str(len(rows)), str(len(rows) - index), 1)))
                return "".join(out)
            out.append(self.take(line))
        return "".join(out) + self.take("\n")

    def blocks(self, blocks: Sequence[str]) -> str:
        """The first blocks, and how many are missing."""
        missing = f"{len(blocks)} more failures: see report.json.\n\n"
        out: list[str] = []
        for index, block in enumerate(blocks):
            if index == _MESSAGES or not self.fits(block, reserve=len(missing)):
                missing = missing.replace(str(len(blocks)), str(len(blocks) - index), 1)
                if self.fits(missing):
                    out.append(self.take(missing))
                break
            out.append(self.take(block))
        return "".join(out)

    def folded(self, rows: Sequence[Row], what: str) -> str:
        if not rows:
            return ""
        before = f"<details>\n<summary>{len(rows)} {what}</summary>\n\n"
        after = "\n</details>\n\n"
        if not self.fits(before + after):
            return ""
        before, after = self.take(before), self.take(after)
        return before + self.table(rows, f"rows {what}") + after


def _head(report: Report) -> str:
    verb = "failed" if report.failed else "passed"
    lines = [f"## kernelpin {verb}: {in_text(headline(report))}\n"]
    lines += _notes(report.problems, lambda text: f"- **{in_text(text)}**")
    lines += _notes(report.warnings, lambda text: f"- {in_text(text)}")
    return "\n".join(lines) + "\n"


def _notes(notes: Sequence[str], write: Callable[[str], str]) -> list[str]:
    if not notes:
        return []
    rest = [f"- and {len(notes) - _NOTES} more: see report.json"] if len(notes) > _NOTES else []
    return [*map(write, notes[:_NOTES]), *rest, ""]


def _accept(report: Report) -> str:
    news = [row for row in report.rows if row.is_news]
    parts = []
    proposable = {"slower", "faster", "other counts", "no baseline", "incomparable"}
    if report.proposed and any(row.outcome in proposable for row in news):
        command = f"kernelpin baselines accept {shlex.quote(report.proposed)} --reason WHY"
        parts.append(
            "**If that is intended**, take the new figures in and commit them"
            " (no GPU needed; from CI, unpack the report's artifact first):\n\n" + fenced(command)
        )
    if any(row.outcome == "other kernels" for row in news):
        parts.append(
            "**If other kernels are intended**, change the claim in the test:"
            " it is no figure that could be accepted.\n"
        )
    return "".join(part + "\n" for part in parts)


def _differences(report: Report) -> str:
    if not report.differences:
        return ""

    def line(index: int) -> str:
        it = report.differences[index]
        tests = f" ({it.tests} {'test' if it.tests == 1 else 'tests'})" if it.tests else ""
        return f"- {in_text(it.what)}: {in_code(it.baseline)} → {in_code(it.now)}{tests}"

    shown = [line(index) for index in range(min(_NOTES, len(report.differences)))]
    more = len(report.differences) - len(shown)
    rest = [f"- and {more} more: see report.json"] if more else []
    return "\n".join(("**Not as the baselines were recorded:**", "", *shown, *rest, "", ""))


def _footer(report: Report) -> str:
    items = [f"{in_text(what, 40)} {in_code(value, 80)}" for what, value in report.environment]
    if report.commit:
        items.append(f"commit {in_code(report.commit, 40)}")
    if report.base:
        items.append(f"base {in_code(report.base, 80)}")
    if report.seconds is not None and math.isfinite(report.seconds):
        items.append(f"{report.seconds:.0f} s")
    return f"<sub>{' · '.join(items[:_NOTES])}</sub>\n\n" if items else ""


def _message(row: Row) -> str:
    trace = f"trace: {in_code(row.trace)}\n\n" if row.trace else ""
    return (
        f"<details open>\n<summary>{in_code(row.nodeid)}</summary>\n\n"
        f"{fenced(row.message or '')}\n{trace}</details>\n\n"
    )


def _table_row(row: Row) -> str:
    cells = (
        in_code(row.nodeid),
        _figure(row.baseline, row) + ("<br>published" if row.reference else ""),
        _figure(row.now, row),
        _changes(row),
        _percent(row.limit),
        _kernels(row),
        _verdict(row),
    )
    return f"| {' | '.join(cells)} |\n"


def _figure(value: float | None, row: Row) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    if row.metric == "host_ratio":
        return f"{value:.3g}×"
    return _us(value) if row.metric.endswith("_us") else f"{value:.4g}"


def _us(value: float) -> str:
    for unit, scale in (("µs", 1.0), ("ms", 1e3), ("s", 1e6)):
        if abs(value) < 999.5 * scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e6:.4g} s"


def _percent(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value * 100:+.3g} %"


def _change(ratio: float | None, low: float | None, high: float | None) -> str:
    if ratio is None or not math.isfinite(ratio):
        return "–"
    change = f"{(ratio - 1) * 100:+.1f} %"
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return change
    return f"{change} ({(low - 1) * 100:+.1f} … {(high - 1) * 100:+.1f})"


def _changes(row: Row) -> str:
    stored = _change(row.ratio, row.low, row.high)
    if row.paired is None:
        return stored
    it = row.paired
    against = f"{_change(it.ratio, it.low, it.high)} against {in_code(it.ref, 60)}"
    pairs = f", {len(it.pairs)} pairs" if it.pairs else ""
    return f"{stored}<br>{against}{pairs}"


def _verdict(row: Row) -> str:
    recorded = " (recorded trace)" if row.source == "recorded" and row.is_news else ""
    word = f"**{in_text(row.outcome, 40)}**" if row.failed else in_text(row.outcome, 40)
    parts = [word + recorded]
    if row.reason and row.is_news:
        parts.append(in_text(row.reason, 200))
    if row.paired is not None:
        parts.append(_paired_verdict(row.paired))
    return "<br>".join(parts)


def _paired_verdict(paired: Paired) -> str:
    word = in_text(paired.outcome, 40)
    reason = f": {in_text(paired.reason, 200)}" if paired.reason else ""
    return f"{word} than or as {in_code(paired.ref, 60)}{reason}"


def _kernels(row: Row) -> str:
    if row.outcome == "other kernels" and row.message:
        return in_text(row.message.strip().partition("\n")[0], 300)
    if row.kernels_before is None or row.kernels_now is None:
        return "–"
    changes = _kernel_changes(row.kernels_before, row.kernels_now)
    if not changes:
        return "same"
    shown = changes[:_KERNEL_LINES]
    more = len(changes) - len(shown)
    return "<br>".join((*shown, f"and {more} more") if more else shown)


def _kernel_changes(before: Iterable[Kernel], now: Iterable[Kernel]) -> list[str]:
    """One entry a kernel that is new, gone, or runs another number of times."""
    old = {kernel.name: kernel for kernel in before}
    new = {kernel.name: kernel for kernel in now}
    out = [f"{_kernel(new[name])} new" for name in new if name not in old]
    out += [f"{_kernel(old[name])} gone" for name in old if name not in new]
    out += [
        f"{in_code(name, 80)} × {old[name].count:g} → × {new[name].count:g}"
        for name in new
        if name in old and old[name].count != new[name].count
    ]
    return out


def _kernel(kernel: Kernel) -> str:
    times = f" × {kernel.count:g}" if kernel.count != 1 else ""
    us = kernel.median_us
    time = f" {_us(us)}" if us is not None and math.isfinite(us) else ""
    return f"{in_code(kernel.name, 80)}{times}{time}"


def _literal(text: str) -> str:
    escaped = re.sub(r"[^\w\s.,;:/@=+(){}%\"'?–—…×µ·→§-]", _reference, _printable(text))
    # An underscore inside a word is no markup, and kernel names are full of them.
    escaped = re.sub(r"(?<![^\W_])_|_(?![^\W_])", "&#95;", escaped)
    return re.sub(r"(?i)(www)\.|:(?=/)", lambda m: f"{m[1]}&#46;" if m[1] else "&#58;", escaped)


def _reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def _printable(text: str) -> str:
    """One line: control characters as their picture (␊), what is no text as its escape."""
    text = text.encode("utf-8", "backslashreplace").decode()
    out = []
    for char in text:
        code = ord(char)
        if code < 0x20:
            out.append(chr(0x2400 + code))
        elif code == 0x7F:
            out.append("␡")
        elif not char.isprintable() and char != " ":
            out.append(f"\\u{code:04x}")
        else:
            out.append(char)
    return "".join(out)


def _elided(text: str, limit: int) -> str:
    """Long text without its middle: both ends of a kernel's name tell kernels apart."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + f"\n… {len(text) - limit} characters more"
