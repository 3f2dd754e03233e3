"""The summary a reviewer reads: what got slower or runs other kernels, why, how to accept it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from kernelpin.render import count
from kernelpin.report.rows import CLAIMS, Difference, Report, Row, headline, worst_first
from kernelpin.report.table import HEADER, table_row
from kernelpin.report.text import fenced, in_code, in_item, in_text

LIMIT_BYTES = 900_000  # GitHub drops a step summary of more than 1 MiB altogether
_MESSAGES = 10  # failures told in full; the table has them all
_OPEN = 3  # and those that need no click
_NOTES = 20  # problems, warnings and differences told each
_ACCEPTABLE = frozenset({"slower", "faster", "other counts", "no baseline", "incomparable"})


def write_summary(report: Report, limit_bytes: int = LIMIT_BYTES) -> str:
    """The summary as GitHub markdown, at most `limit_bytes` long in UTF-8.

    Headline, what failed the session, the rows a reviewer must see (failures first), how to
    accept, the failures' messages, what differs in the environment, and the unchanged rows
    folded. What does not fit is cut from the end of that list, and each cut says how much is
    missing. Names show as text.
    """
    rows = worst_first(report.rows)
    news = [row for row in rows if row.is_news]
    failures = [row for row in news if row.failed and row.message]
    quiet = [row for row in rows if not row.is_news]
    ran = [row for row in quiet if row.outcome != "skipped"]

    page = _Page(limit_bytes)
    page.add(_title(report))
    page.list("", [f"- <strong>{in_item(it)}</strong>\n" for it in report.problems], "problems")
    with page.then(_accept(report, news)):
        page.table(news, "rows to look at")
    messages = (_message(row, index < _OPEN) for index, row in enumerate(failures))
    page.fill(messages, len(failures), "failures", _MESSAGES)
    page.list(
        "**Not as the baselines were recorded**\n\n",
        [_difference(it) for it in report.differences],
        "differences",
    )
    page.list("**Warnings**\n\n", [f"- {in_item(it)}\n" for it in report.warnings], "warnings")
    page.add(_environment(report))
    page.folded([row for row in ran if row.source != "recorded"], "unchanged")
    page.folded([row for row in ran if row.source == "recorded"], "unchanged on recorded traces")
    page.folded([row for row in quiet if row.outcome == "skipped"], "skipped")
    return page.text


class _Page:
    """A text that grows by what still fits, and says what did not."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def fits(self, text: str) -> bool:
        return len(text.encode()) <= self._left

    def add(self, text: str) -> bool:
        if not self.fits(text):
            return False
        self._left -= len(text.encode())
        self._parts.append(text)
        return True

    @contextmanager
    def then(self, text: str) -> Iterator[None]:
        """Sets room aside for `text`, which follows what the block adds; or leaves it out."""
        fits = self.fits(text)
        self._left -= len(text.encode()) if fits else 0
        yield
        self._parts.append(text if fits else "")

    def fill(self, units: Iterable[str], total: int, what: str, most: int | None = None) -> None:
        """As many of `total` units as fit, up to `most`, then how many more there are."""
        for index, unit in enumerate(units):
            rest = f"\n{total - index} more {what}: see report.json.\n\n"
            # The last one needs no room for a sentence after it.
            if index == most or not self.fits(unit if index + 1 == total else unit + rest):
                self.add(rest)
                return
            self.add(unit)

    def list(self, title: str, items: Sequence[str], what: str) -> None:
        if items and self.add(title):
            self.fill(items, len(items), what, _NOTES)
            self.add("\n")

    def table(self, rows: Sequence[Row], what: str) -> None:
        if not rows:
            return
        if self.fits(HEADER * 2):
            self.add(HEADER)
            self.fill(map(table_row, rows), len(rows), what)
            self.add("\n")
        else:
            self.add(f"\n{len(rows)} {what}: see report.json.\n\n")

    def folded(self, rows: Sequence[Row], what: str) -> None:
        """A table behind a click, or nothing: a fold without its end would swallow the page."""
        begin, end = f"<details>\n<summary>{len(rows)} {what}</summary>\n\n", "\n</details>\n\n"
        if rows and self.fits(begin + end):
            with self.then(end):
                self.add(begin)
                self.table(rows, f"rows {what}")


def _title(report: Report) -> str:
    return (
        f"## kernelpin {'failed' if report.failed else 'passed'}: {in_text(headline(report))}\n\n"
    )


def _accept(report: Report, news: Sequence[Row]) -> str:
    text = ""
    if report.proposed and any(row.outcome in _ACCEPTABLE for row in news):
        command = f'kernelpin baselines accept {shlex.quote(report.proposed)} --reason "…"'
        text += (
            "**Intended?** Take the new figures in and commit them; that needs no GPU. "
            "(From CI: download the report first.)\n\n" + fenced(command) + "\n"
        )
    claims = [row.outcome for row in news if row.outcome in CLAIMS]
    if claims:
        word = "kernels" if "other kernels" in claims else "ops"
        text += (
            f"**Other {word} on purpose?** Then change the claim in the test: "
            "it is not a figure that could be accepted.\n\n"
        )
    return text


def _message(row: Row, is_open: bool) -> str:
    trace = f"\ntrace: {in_code(row.trace)}\n" if row.trace else ""
    return (
        f"<details{' open' if is_open else ''}>\n<summary>{in_code(row.nodeid)}</summary>\n\n"
        f"{fenced(row.message or '')}{trace}\n</details>\n\n"
    )


def _difference(it: Difference) -> str:
    tests = f" ({count(it.tests, 'test')})" if it.tests else ""
    return f"- {in_item(it.what, 80)}: {in_code(it.baseline)} → {in_code(it.now)}{tests}\n"


def _environment(report: Report) -> str:
    items = [f"{in_text(what, 40)} {in_code(value, 80)}" for what, value in report.environment]
    if report.commit:
        items.append(f"commit {in_code(report.commit, 40)}")
    if report.base:
        items.append(f"base {in_code(report.base, 80)}")
    if report.seconds is not None and math.isfinite(report.seconds):
        items.append(f"{report.seconds:.0f} s")
    return f"<sub>{' · '.join(items[:_NOTES])}</sub>\n\n" if items else ""
