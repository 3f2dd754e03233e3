"""The arithmetic of the detection benchmark, on invented figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.detected import cases_of, report
from benchmarks.detecting import Order, dry
from benchmarks.detection_gpu import ROOT
from benchmarks.planted import WORKLOADS, corrected, planned

SIZES = (0, 1, 2, 5, 10)


@pytest.fixture(scope="module")
def processes():
    """One lane: 8 processes of the baseline, 24 that measure everything."""
    unchanged = {workload.name: {"0": workload.steps} for workload in WORKLOADS}
    plan = dry(Order("plan", 0, unchanged))
    steps = planned(plan["figures"], plan["ns_per_step"], SIZES)
    orders = [Order("baseline", n, unchanged) for n in range(1, 9)]
    orders += [Order("now", n, steps) for n in range(9, 33)]
    return [
        dry(order) | {"role": order.role, "number": order.seed, "lane": 0, "run": 0, "rival": {}}
        for order in orders
    ]


@pytest.fixture(scope="module")
def told(processes):
    """The table and the data."""
    return report(processes)


def counts(data, method, size):
    return next(
        row["counts"] for row in data["results"] if (row["method"], row["size"]) == (method, size)
    )


def test_there_are_workloads_from_3_us_to_5_ms():
    assert len(WORKLOADS) >= 10


def test_what_is_planted_is_what_is_measured(told):
    for row in told[1]["workloads"]:
        for size, measured in row["measured"].items():
            assert measured == pytest.approx(float(size) / 100, abs=0.004), row["workload"]


def test_a_length_that_added_too_little_is_corrected():
    """Of a step that was thought to take 2 ns and takes 1.6; noise and nonsense change nothing."""
    name, own = WORKLOADS[3].name, WORKLOADS[3].steps
    us = {"0": 100.0, "1": 100.1, "2": 101.6, "5": 104.0, "10": 95.0}
    steps = planned({name: {"0": {"us": 100.0}}}, 2.0, SIZES)

    found = corrected(steps, {name: {size: {"us": value} for size, value in us.items()}})

    added = {size: length - own for size, length in found[name].items()}
    assert added == {"0": 0, "1": 500, "2": 1250, "5": 3125, "10": 5000}


def test_each_method_finds_what_it_promises(told):
    text, data = told

    for method in ("stored, same card", "paired"):
        assert "slower" not in counts(data, method, "0")
        assert counts(data, method, "10").keys() <= {"slower", "open"}
    stored, paired = counts(data, "stored, same card", "5"), counts(data, "paired", "2")
    for found in (stored, paired):
        judged = sum(n for name, n in found.items() if name != "open")
        assert found["slower"] >= 0.95 * judged
    slower = counts(data, "paired", "10")["slower"]
    assert text.splitlines()[-1].split()[:4] == ["paired", "+10", "%", str(slower)]


def test_a_figure_serves_a_method_once(told):
    """Of 24 processes each screens unchanged code, and 5 decide what is slower; or 12 pairs do."""
    _, data = told

    assert counts(data, "stored, same card", "0")["same"] == 13 * 24
    assert sum(counts(data, "stored, same card", "10").values()) == 13 * 5
    assert counts(data, "paired", "0")["same"] <= 13 * 3


def test_a_disturbed_process_counts_for_nothing(processes):
    disturbed = json.loads(json.dumps(processes))
    for process in disturbed[8:]:
        for sizes in process["figures"].values():
            sizes["10"]["reason"] = "another process"
    _, data = report(disturbed)

    assert counts(data, "stored, same card", "10") == {}
    assert counts(data, "paired", "10") == {}


def test_runs_on_one_card_may_be_joined_and_no_pair_is_of_two_runs(processes):
    """11 and 13 processes that measured all: 5 and 6 pairs; apart, no size gets to 8 of them."""
    runs = [process | {"run": int(process["number"] >= 20)} for process in processes]
    again = [process | {"run": 1} for process in processes if process["role"] == "baseline"]

    apart, joined = (cases_of([*runs, *again], join=join) for join in (False, True))

    assert sorted(test.name for test in joined) == sorted(w.name for w in WORKLOADS)
    assert {(len(test.baseline), len(test.pairs)) for test in joined} == {(8, 11)}
    assert sorted(len(test.pairs) for test in apart) == [5] * 13 + [6] * 13
    numbers = {id(process["figures"][joined[0].name]): process["number"] for process in runs}
    for test in joined[:1]:
        for pair in test.pairs:
            first, second = (numbers[id(one)] for one in pair)
            assert second == first + 1
            assert (first < 20) == (second < 20)


def test_the_rival_is_judged_by_its_own_rule(processes):
    told = [dict(process) for process in processes]  # without a rival so far
    name = WORKLOADS[0].name
    told[7]["rival"] = {f"{name}|0": {"median": 100.0, "seconds": 1.0}}
    told[8]["rival"] = {
        f"{name}|0": {"median": 105.5, "seconds": 1.0},
        f"{name}|5": {"median": 104.9, "seconds": 1.0},
    }
    _, data = report(told)

    assert counts(data, "pytest-benchmark", "0") == {"slower": 1}
    assert counts(data, "pytest-benchmark", "5") == {"same": 1}


def test_a_rivals_figure_is_of_one_call_whatever_a_replay_holds(processes):
    """A slower call fills its sample with fewer calls: the replay lasts as long as before."""
    told = [dict(process) for process in processes]
    name = next(iter(told[8]["figures"]))
    told[7]["rival"] = {f"{name}|0": {"median": 100.0, "seconds": 1.0}}  # 10 calls
    figures = dict(told[8]["figures"])
    figures[name] = {size: figure | {"calls": 8} for size, figure in figures[name].items()}
    told[8] |= {"figures": figures, "rival": {f"{name}|10": {"median": 100.0, "seconds": 1.0}}}
    rows = [r for r in report(told)[1]["results"] if r["method"] == "pytest-benchmark"]
    assert [row["counts"] for row in rows if row["size"] == "10"] == [{"slower": 1}]


def test_pytest_benchmark_itself_measures_the_rival():
    code = (
        "import json, time; from benchmarks.detecting import rival;"
        "told = rival({'a b|0': lambda: time.sleep(0.01), 'c|10': lambda: None});"
        "print('\\n' + json.dumps(told))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        # Beside xdist's workers pytest-benchmark disables itself.
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    told = json.loads(shown.stdout.splitlines()[-1])
    assert told.keys() == {"a b|0", "c|10"}
    assert told["a b|0"]["median"] > 0.01


@pytest.mark.parametrize("option", [[], ["--trouble"]])
def test_the_command_ends_in_its_table(tmp_path: Path, option):
    command = [sys.executable, str(ROOT / "benchmarks/detection_gpu.py"), "--dry"]
    shown = subprocess.run(
        [*command, "--most=2", "--lanes=1", f"--out={tmp_path}", *option],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert shown.returncode == 0, shown.stderr
    data = json.loads((tmp_path / "detection_gpu.json").read_text())
    assert len(data["workloads"]) == len(WORKLOADS)
    assert data["failed"] == []
    if option:
        assert "unchanged, under trouble (stranger): 13 unclear (disturbed)" in shown.stdout
    again = subprocess.run(
        [*command, "--table", str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert again.stdout == shown.stdout
