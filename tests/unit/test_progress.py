"""The line that the terminal shows while workers measure."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kernelpin.plugin.progress import Line, said
from kernelpin.workers import Budget, Progress


class Reporter:
    """What pytest's terminal reporter is asked to do."""

    def __init__(self, isatty):
        self.isatty = isatty
        self.written = []

    def ensure_newline(self):
        self.written.append("newline")

    def rewrite(self, text, erase):
        self.written.append(("rewrite", text))

    def write_line(self, text):
        self.written.append(("line", text))

    def write(self, text):
        self.written.append(("write", text))


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("kernelpin.plugin.progress.time.monotonic", lambda: now.seconds)
    return now


def line(reporter, verbose=0):
    manager = SimpleNamespace(get_plugin=lambda name: reporter)
    return Line(SimpleNamespace(option=SimpleNamespace(verbose=verbose), pluginmanager=manager))


def progress(done):
    return Progress(done, 20, "t.py::test_it[a]", Budget(60))


def test_it_says_what_how_many_how_long_and_which():
    told = said("measuring", progress(3))
    assert told == "kernelpin: measuring 3 of 20 tests, 0 s of at most 60 s: test_it[a]"


def test_on_a_terminal_it_is_rewritten_twice_a_second_and_erased_at_the_end(clock):
    reporter = Reporter(isatty=True)
    shown = line(reporter)
    for seconds in (0.0, 0.1, 0.2, 0.6):
        clock.seconds = seconds
        shown.tell("measuring", progress(1))
    assert [what for what in reporter.written if what[0] == "rewrite"] == [
        ("rewrite", said("measuring", progress(1)))
    ] * 2
    shown.end()
    assert reporter.written[-2:] == [("rewrite", ""), ("write", "\r")]


def test_elsewhere_it_is_a_line_a_process_and_one_every_half_minute(clock):
    reporter = Reporter(isatty=False)
    shown = line(reporter)
    for seconds, process in ((0, 1), (10, 1), (29, 1), (31, 1), (32, 2)):
        clock.seconds = seconds
        shown.tell(f"recording, process {process} of 2:", progress(1))
    assert sum(what[0] == "line" for what in reporter.written) == 3
    shown.end()


def test_quiet_it_says_nothing(clock):
    reporter = Reporter(isatty=True)
    line(reporter, verbose=-1).tell("measuring", progress(1))
    assert not reporter.written
