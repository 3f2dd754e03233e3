"""pytest-benchmark shows our samples in its own tables, and its options mean what they say."""

from __future__ import annotations

import json

import pytest
from small_project import figures, text_of

pytest.importorskip("pytest_benchmark")


@pytest.fixture
def suite(project):
    project.timing_tests("test_speed")
    project.write("test_theirs.py", "def test_other(): pass\n")
    project.baseline("test_speed", figures(41.2))
    project.measured("test_speed", *figures(41.2, 12, seed=1))
    return project


def test_its_json_holds_the_first_process_and_what_the_gpu_is(suite):
    suite.run("--benchmark-json=bench.json").assert_outcomes(passed=2)
    told = json.loads((suite.path / "bench.json").read_text())
    (bench,) = told["benchmarks"]
    assert bench["fullname"] == "test_speed.py::test_speed"
    assert bench["stats"]["median"] == pytest.approx(41.2e-6, rel=0.01)
    assert bench["stats"]["rounds"] == 3
    assert bench["extra_info"]["kernelpin.verdict"] == "same"
    assert told["machine_info"]["gpu"]["name"] == "NVIDIA H200"
    assert "GPU-0" not in json.dumps(told["machine_info"])


def test_its_table_and_compare_work(suite):
    suite.run("--benchmark-save=before")
    result = suite.run("--benchmark-compare")
    result.assert_outcomes(passed=2)
    assert "test_speed (0001_before)" in text_of(result)
    assert "machine_info is different" not in text_of(result)


def test_a_test_that_gets_slower_is_in_the_table_too(suite):
    suite.forget()
    suite.measured("test_speed", *figures(47.9, 12))
    result = suite.run("--benchmark-json=bench.json")
    result.assert_outcomes(passed=1, failed=1)
    assert json.loads((suite.path / "bench.json").read_text())["benchmarks"]


def test_only_runs_ours_and_skip_skips_them(suite):
    suite.run("--benchmark-only").assert_outcomes(passed=1, skipped=1)
    result = suite.run("--benchmark-skip", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    assert "--benchmark-skip active" in text_of(result)


def test_disabled_it_gets_no_samples_and_verdicts_still_come(suite):
    suite.forget()
    suite.measured("test_speed", *figures(47.9, 12))
    result = suite.run("--benchmark-disable")
    result.assert_outcomes(passed=1, failed=1)
    assert "OPS" not in text_of(result)


def test_the_users_own_benchmark_marker_keeps_its_group(suite):
    suite.timing_tests("test_speed", marks=("benchmark(group='attention')",))
    suite.run("--benchmark-json=bench.json").assert_outcomes(passed=2)
    (bench,) = json.loads((suite.path / "bench.json").read_text())["benchmarks"]
    assert bench["group"] == "attention"


def test_it_need_not_be_there(suite):
    result = suite.run("-p", "no:benchmark")
    result.assert_outcomes(passed=2)


def test_suites_without_baselines_keep_their_machine_info(project):
    project.write("test_theirs.py", "def test_it(benchmark): benchmark(print)\n")
    project.measured("test_of_a_gpu", 41.2)
    result = project.run("--benchmark-json=bench.json", "--benchmark-max-time=0.01")
    result.assert_outcomes(passed=1)
    assert "gpu" not in json.loads((project.path / "bench.json").read_text())["machine_info"]
