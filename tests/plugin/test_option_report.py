"""`--kernelpin-report`: summary, JSON, proposals; and the way of a contributor without a GPU."""

from __future__ import annotations

import json
import shutil

import pytest
from small_project import figures, text_of

from kernelpin.cli import main


@pytest.fixture
def suite(project):
    project.timing_tests("test_same", "test_slow", "test_new")
    project.baseline("test_same", figures(41.2))
    project.baseline("test_slow", figures(41.2))
    project.measured("test_same", *figures(41.2, 12, seed=1))
    project.measured("test_slow", *figures(47.9, 12, seed=2))
    project.measured("test_new", *figures(12.0, 12, seed=3))
    return project


def test_the_report_says_what_the_outcomes_are(suite):
    result = suite.run("--kernelpin-report=report", ci=True)
    result.assert_outcomes(passed=1, failed=2)
    report = suite.report()
    assert report["headline"] == "1 slower, 1 no baseline, 1 same on NVIDIA H200"
    assert report["headline"] in text_of(result)
    assert report["headline"] in (suite.path / "report" / "summary.md").read_text()
    slow = next(row for row in report["rows"] if row["nodeid"].endswith("test_slow"))
    assert slow["outcome"] == "slower"
    assert slow["failed"]
    assert slow["limit"] == 0.03
    assert slow["file"] == "test_speed.py"
    assert slow["line"] == 6
    assert slow["message"].startswith("slower than the baseline: ")
    assert report["proposed"] == "report/proposed"


def test_what_a_runner_measured_is_accepted_on_a_laptop_and_is_then_the_same(suite, capsys):
    suite.run("--kernelpin-report=report", ci=True).assert_outcomes(passed=1, failed=2)
    proposed = suite.path / "report" / "proposed"
    assert main(["baselines", "accept", str(proposed), "--reason", "a safer kernel"]) == 0
    suite.run(ci=True).assert_outcomes(passed=3)


def test_without_a_reason_nothing_that_got_slower_is_accepted(suite, capsys):
    suite.run("--kernelpin-report=report", ci=True)
    assert main(["baselines", "accept", str(suite.path / "report" / "proposed")]) == 1
    suite.run(ci=True).assert_outcomes(passed=1, failed=2)


def test_nothing_is_proposed_where_nothing_is_to_be_accepted(suite):
    suite.timing_tests("test_same")
    suite.run("--kernelpin-report=report")
    assert not (suite.path / "report" / "proposed").exists()
    assert suite.report()["proposed"] is None


def test_proposals_of_an_earlier_run_do_not_stay(suite):
    suite.run("--kernelpin-report=report")
    suite.baseline("test_new", figures(12.0))
    suite.baseline("test_slow", figures(47.9))
    suite.run("--kernelpin-report=report").assert_outcomes(passed=3)
    assert not list((suite.path / "report").glob("proposed/*/*.json"))


def test_on_github_the_summary_is_appended_and_failures_are_annotated(suite, monkeypatch):
    step = suite.path / "step.md"
    step.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = suite.run(ci=True)
    assert step.read_text().startswith("before\n")
    assert "1 slower, 1 no baseline, 1 same on NVIDIA H200" in step.read_text()
    result.stdout.fnmatch_lines(["::error file=test_speed.py,line=6,title=kernelpin%3A slower::*"])


def test_environment_differences_are_named(suite):
    for path in (suite.path / "baselines" / "nvidia-h200").iterdir():
        path.write_text(path.read_text().replace("580.159", "570.86"))
    suite.run("--kernelpin-report=report")
    assert {
        "what": "driver",
        "baseline": "570.86",
        "now": "580.159",
        "tests": 2,
    } in suite.report()["differences"]


def test_an_unwritable_report_is_red(suite):
    suite.timing_tests("test_same")
    (suite.path / "report").write_text("a file in its place")
    result = suite.run("--kernelpin-report=report")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "the report could not be written" in text_of(result)
    assert "report: report" not in text_of(result)


def test_other_baselines_and_another_report_folder(suite):
    shutil.move(suite.path / "baselines", suite.path / "elsewhere")
    suite.timing_tests("test_same")
    suite.run("--kernelpin-baselines=elsewhere", ci=True).assert_outcomes(passed=1)


@pytest.mark.parametrize("option", ["--kernelpin-report=", "--kernelpin-baselines= "])
def test_an_empty_folder_is_refused_and_nothing_is_touched(suite, option):
    suite.write("proposed/mine.txt", "kept")
    result = suite.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"argument {option.split('=')[0]}: found the empty value" in result.stderr.str()
    assert "name a folder ('.' is the working folder) or leave the option out" in (
        result.stderr.str()
    )
    assert (suite.path / "proposed" / "mine.txt").exists()
    assert not (suite.path / "report.json").exists()


DAMAGED = {
    "no trace": {"rows": [{"trace": ""}]},
    "a folder": {"rows": [{"trace": "traces"}]},
    "a folder inside": {"rows": [{"trace": "traces/folder.json.gz"}]},
    "NUL": {"rows": [{"trace": "traces/a\0b.json.gz"}]},
    "a surrogate": {"rows": [{"trace": "traces/\ud800.json.gz"}]},
    "too long": {"rows": [{"trace": f"traces/{'x' * 5000}.json.gz"}]},
    "outside": {"rows": [{"trace": "traces/../../kept.json.gz"}, {"trace": "../kept.json.gz"}]},
    "another's": {"rows": [{"trace": "mine.txt"}, {"trace": "summary.md"}]},
    "rows of another kind": {"rows": {"trace": "a"}},
    "a row of another kind": {"rows": [None, 3, "trace", ["trace"]]},
    "no rows": {},
}


@pytest.mark.parametrize(
    "content",
    [
        *(
            pytest.param(json.dumps({"schema": "kernelpin-report", **told}).encode(), id=name)
            for name, told in DAMAGED.items()
        ),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"\x80\x00\xff", id="binary"),
        pytest.param(b"", id="empty"),
        pytest.param(b'["schema"]', id="a list"),
        pytest.param(b'{"rows": [{"trace": "traces/a.json.gz"}]}', id="no report of ours"),
    ],
)
def test_a_damaged_report_of_an_earlier_run_neither_stops_a_run_nor_removes_a_thing(suite, content):
    kept = ["kept.json.gz", "report/mine.txt", "report/proposed/mine.txt"]
    kept += ["report/traces/a.json.gz", "report/traces/folder.json.gz/mine.txt"]
    for file in kept:
        suite.write(file, "kept")
    (suite.path / "report" / "report.json").write_bytes(content)
    suite.run("--kernelpin-report=report", ci=True).assert_outcomes(passed=1, failed=2)
    assert all((suite.path / file).read_text() == "kept" for file in kept)
    assert suite.report()["headline"] == "1 slower, 1 no baseline, 1 same on NVIDIA H200"


def test_only_the_files_that_an_earlier_report_wrote_are_removed(suite):
    told = {"schema": "kernelpin-report", "rows": [{"trace": "traces/a.json.gz"}]}
    suite.write("report/report.json", json.dumps(told))
    gone = ["report/traces/a.json.gz", "report/proposed/nvidia-h200/old.json"]
    kept = ["report/traces/b.json.gz", "report/proposed/mine.txt", "elsewhere/old.json"]
    for file in (*gone, *kept):
        suite.write(file, "{}")
    (suite.path / "report" / "proposed" / "linked").symlink_to(suite.path / "elsewhere")
    suite.timing_tests("test_same")
    suite.run("--kernelpin-report=report").assert_outcomes(passed=1)
    assert not [file for file in gone if (suite.path / file).exists()]
    assert not (suite.path / "report" / "proposed" / "nvidia-h200").exists()
    assert all((suite.path / file).exists() for file in kept)
