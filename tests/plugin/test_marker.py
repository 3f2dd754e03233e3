"""`@pytest.mark.kernelpin`: a limit of the test's own, and why."""

from __future__ import annotations

import textwrap

import pytest
from small_project import figures, text_of


def project_with(project, *marks, now=42.6):
    project.timing_tests("test_it", marks=marks)
    project.baseline("test_it", figures(41.2))
    project.measured("test_it", *figures(now, 12, seed=1))
    return project


@pytest.mark.parametrize(
    ("mark", "outcome"),
    [
        ("kernelpin(limit=0.01)", {"failed": 1}),
        ("kernelpin(limit='1 %')", {"failed": 1}),
        ("kernelpin(limit=0.1)", {"passed": 1}),
    ],
)
def test_a_limit_of_its_own_is_what_judges_it(project, mark, outcome):
    project_with(project, mark).run().assert_outcomes(**outcome)


@pytest.mark.parametrize(
    ("outer", "inner", "outcome"),
    [
        ("limit=0.01", "flops=1", "failed"),
        ("limit=0.01", "because='it copies first'", "failed"),
        ("limit=0.01", "limit=0.1", "passed"),
        ("limit=0.1", "limit=0.01", "failed"),
        ("limit=0.01", "limit=None", "failed"),
    ],
)
@pytest.mark.parametrize("where", ["module", "class"])
def test_what_a_modules_marker_says_holds_where_the_tests_own_does_not(
    project, where, outer, inner, outcome
):
    test = f"""
        @pytest.mark.kernelpin({inner})
        def test_it({"self, " if where == "class" else ""}stopwatch):
            stopwatch(print)
    """
    head = "import pytest\n"
    if where == "module":
        text = f"{head}pytestmark = pytest.mark.kernelpin({outer})\n{textwrap.dedent(test)}"
        name = "test_it"
    else:
        body = textwrap.indent(textwrap.dedent(test), "    ")
        text = f"{head}@pytest.mark.kernelpin({outer})\nclass TestIt:\n{body}"
        name = "TestIt::test_it"
    project.write("test_speed.py", text)
    project.baseline(name, figures(41.2))
    project.measured(name, *figures(42.2, 12, seed=1))
    project.run().assert_outcomes(**{outcome: 1})


def test_the_work_of_a_call_may_be_told_in_two_markers(project):
    project.write(
        "test_speed.py",
        "import pytest\n"
        "pytestmark = pytest.mark.kernelpin(flops=2 * 4096**3)\n"
        "@pytest.mark.kernelpin(dtype='bf16', bytes=3)\n"
        "def test_it(stopwatch):\n    stopwatch(print)\n",
    )
    project.baseline("test_it", figures(41.2))
    project.measured("test_it", *figures(400.0, 12, seed=1))
    assert "% of the dense bf16 peak" in text_of(project.run())


def test_a_limit_in_the_baseline_holds_where_the_marker_has_none(project):
    project_with(project)
    project.baseline("test_it", figures(41.2), limit=0.01)
    project.run().assert_outcomes(failed=1)


def test_a_limit_below_the_noise_is_refused_with_the_floor_named(project):
    project = project_with(project, "kernelpin(limit=0.002)")
    result = project.run()
    result.assert_outcomes(failed=1)
    assert "below twice the noise floor of 0.25%" in text_of(result)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("kernelpin(0.05)", "unknown argument 0.05; allowed are limit=0.03"),
        ("kernelpin(limt=0.05)", "unknown argument limt; allowed are limit=0.03"),
        ("kernelpin(limit=5)", "limit=5: allowed is a fraction between 0 and 1"),
        ("kernelpin(limit='five')", "limit='five': allowed is a fraction between 0 and 1"),
        ("kernelpin(limit=[0.1])", "limit=[0.1]: allowed is a fraction between 0 and 1"),
        ("kernelpin(limit=True)", "limit=True: allowed is a fraction between 0 and 1"),
        ("kernelpin(limit=float('nan'))", "limit=nan: allowed is a fraction between 0 and 1"),
        ("kernelpin(limit=10**400)", f"limit=1{'0' * 79}…: allowed is a fraction"),
        ("kernelpin(limit=10**5000)", "limit=<int>: allowed is a fraction between 0 and 1"),
        ("kernelpin(because=3)", "because=3: allowed is a text that says why"),
        ("kernelpin(because=' ')", "because=' ': allowed is a text that says why"),
        (
            "kernelpin(flops=float('inf'))",
            "flops=inf: allowed is a finite number from 0 to 9.2e+18",
        ),
        ("kernelpin(flops=float('nan'))", "flops=nan: allowed is a finite number from 0 to"),
        ("kernelpin(flops='x')", "flops='x': allowed is a finite number from 0 to"),
        ("kernelpin(flops=-5)", "flops=-5: allowed is a finite number from 0 to"),
        ("kernelpin(flops=True)", "flops=True: allowed is a finite number from 0 to"),
        ("kernelpin(bytes=10**400)", f"bytes=1{'0' * 79}…: allowed is a finite number from 0"),
        ("kernelpin(bytes=2**64)", "bytes=18446744073709551616: allowed is a finite number"),
        ("kernelpin(flops=1, dtype='foo')", "dtype='foo': allowed is one of fp64, fp32, tf32"),
        ("kernelpin(dtype=16)", "dtype=16: allowed is one of fp64, fp32, tf32, bf16, fp16, fp8"),
    ],
)
def test_wrong_arguments_are_usage_errors_that_name_the_test(project, mark, said):
    result = project_with(project, mark).run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"test_speed.py::test_it: marker kernelpin: {said}" in result.stderr.str()


@pytest.mark.parametrize(
    ("marks", "named"),
    [
        (["gpu(limit=0.1)"], "marker gpu: found limit=0.1"),
        (["gpu", "gpu(limit=0.1, because='x')"], "marker gpu: found because='x', limit=0.1"),
        (["cpu(limit=0.1)"], "marker cpu: found limit=0.1"),
    ],
)
def test_a_limit_in_another_marker_is_not_lost_unnoticed(project, marks, named):
    result = project_with(project, *marks, now=41.2).run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"test_speed.py::test_it: {named}, which it does not read" in result.stderr.str()
    assert f"@pytest.mark.kernelpin({named.split('found ')[1]}) beside it" in result.stderr.str()


def test_what_a_suites_own_marker_of_that_name_takes_is_its_own(project):
    mark = "gpu(count=2, dtype='bf16', bytes=1 << 30)"
    project_with(project, mark, now=41.2).run().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "mark",
    [
        "kernelpin(flops=2e9, bytes=0, dtype='torch.float16', because='it copies first')",
        "kernelpin(limit=None, because=None, flops=None, bytes=2**40, dtype=None)",
    ],
)
def test_what_is_allowed_is_taken(project, mark):
    project_with(project, mark, now=41.2).run().assert_outcomes(passed=1)


def test_how_far_from_the_limit_a_slower_test_runs(project):
    project = project_with(project, "kernelpin(flops=2 * 4096**3)", now=400.0)
    assert "34 % of the dense bf16 peak" in text_of(project.run()).replace("35 %", "34 %")
