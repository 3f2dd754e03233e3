"""The simulated detection: its page tells what was counted, and of baselines as they are stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import detection, sessions
from kernelpin.baselines import Store

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "detection.md"
COUNTS = ROOT / "benchmarks" / "results" / "detection-8-processes-2026-11-30.json"


def told(tmp_path, *options):
    page = tmp_path / "page.md"
    detection.main([*options, "--out", str(page)])
    return page.read_text(encoding="utf-8")


def test_every_figure_of_the_page_is_from_the_counts_that_it_names(tmp_path):
    assert told(tmp_path, "--from", str(COUNTS)) == PAGE.read_text(encoding="utf-8")
    assert f"(../benchmarks/results/{COUNTS.name})" in PAGE.read_text(encoding="utf-8")


def test_the_counts_are_of_20_000_sessions_of_60_tests_each():
    counted = json.loads(COUNTS.read_text(encoding="utf-8"))["counted"]
    assert {(row["sessions"], row["tests"]) for row in counted} == {(20_000, 1_200_000)}


def test_the_page_is_about_baselines_of_as_many_processes_as_are_stored():
    entries = Store(ROOT / "baselines").entries("nvidia-h200").values()
    stored = {
        recording.processes
        for entry in entries
        if entry.metric == "device_us"
        for recording in entry.recordings
    }
    assert stored == {sessions.BASELINE}
    assert f"A baseline has {sessions.BASELINE} processes" in PAGE.read_text(encoding="utf-8")


def test_a_page_told_from_kept_counts_is_the_page_of_the_run(tmp_path):
    counts = tmp_path / "counts.json"
    ran = told(tmp_path, "--sessions=3", "--counts", str(counts))
    assert told(tmp_path, "--from", str(counts)) == ran


def test_the_number_of_baseline_processes_is_an_option(tmp_path):
    text = told(tmp_path, "--sessions=3", "--baseline=12")
    assert "A baseline has 12 processes. One" in text
    assert "| 12 processes | | 8 processes |" in text
    assert "| 8 baseline processes |" in text


def test_fewer_baseline_processes_are_the_first_of_the_same_draws():
    few, many = (
        sessions.Condition(sessions.PAIRED, sessions.BACK_TO_BACK, n_baseline=n) for n in (8, 12)
    )
    tallies = sessions.simulate([few, many], 3)
    assert tallies[few].rivals == tallies[many].rivals  # they compare with the first process alone
    assert tallies[few] == sessions.simulate([few], 3)[few]


def test_more_baseline_processes_than_are_usual_are_drawn(monkeypatch):
    condition = sessions.Condition(sessions.PAIRED, sessions.ONE, n_baseline=20)
    drawn = []
    monkeypatch.setattr(sessions, "run", lambda it, draws, _: drawn.append(draws.parts["baseline"]))
    sessions.simulate([condition], 2)
    assert [part.normal.shape for part in drawn] == [(120, 20)]


def test_too_few_baseline_processes_to_screen_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        told(tmp_path, "--sessions=1", "--baseline=7")
    assert "--baseline 7: fewer than 8 processes screen nothing" in capsys.readouterr().err


def test_counts_of_another_simulation_are_refused(tmp_path):
    changed = COUNTS.read_text(encoding="utf-8").replace('"offset": 0.01', '"offset": 0.03')
    (tmp_path / "counts.json").write_text(changed, encoding="utf-8")
    with pytest.raises(SystemExit, match="is of another simulation"):
        told(tmp_path, "--from", str(tmp_path / "counts.json"))
