"""Nothing hides a baseline whose test is gone, or one that nobody can read."""

from __future__ import annotations

import shutil

import pytest
from small_project import figures, text_of


@pytest.fixture
def gated(project):
    """Two timing tests that are as fast as their baselines."""
    project.timing_tests("test_a", "test_b", marks=("gpu",))
    for name in ("test_a", "test_b"):
        project.baseline(name, figures(41.2))
        project.measured(name, 41.2)
    return project


@pytest.mark.parametrize("ci", [True, False])
def test_a_damaged_file_that_no_test_needs_hides_no_orphan(gated, ci):
    gated.timing_tests("test_a", marks=("gpu",))
    (gated.path / "baselines" / "nvidia-h200" / "test_old.json").write_text("{")
    result = gated.run(ci=ci)
    assert result.ret == (pytest.ExitCode.TESTS_FAILED if ci else pytest.ExitCode.OK)
    said = [x for x in text_of(result).splitlines() if x.startswith(("error:", "warning:"))]
    assert len(said) == 2
    assert "test_speed.py::test_b" in said[0]
    assert "test_old.json" in said[1]


@pytest.mark.parametrize("how", ["it says so no more", "its fixture is another one"])
@pytest.mark.parametrize("ci", [True, False])
def test_a_test_that_no_longer_measures_is_told(gated, how, ci):
    if how == "it says so no more":
        text = (gated.path / "test_speed.py").read_text()
        first = text[: text.index("@pytest.mark.gpu\ndef test_b")]
        gated.write("test_speed.py", f"{first}@pytest.mark.gpu\ndef test_b():\n    pass\n")
        lost = "test_speed.py::test_b"
    else:
        gated.write(
            "conftest.py",
            "import pytest\n@pytest.fixture\ndef stopwatch():\n    return lambda *a, **k: None\n",
        )
        lost = "test_speed.py::test_a, test_speed.py::test_b"
    result = gated.run("-m", "gpu", ci=ci)
    assert result.ret == (pytest.ExitCode.TESTS_FAILED if ci else pytest.ExitCode.OK)
    said = "error" if ci else "warning"
    assert (
        f"{said}: baselines whose test passed and measured nothing: {lost}; measure in it"
        in text_of(result)
    )


def test_a_skipped_test_with_a_baseline_is_named(gated):
    text = (gated.path / "test_speed.py").read_text()
    gated.write(
        "test_speed.py", text.replace("def test_b", "@pytest.mark.skip('later')\ndef test_b")
    )
    result = gated.run(ci=True)
    result.assert_outcomes(passed=1, skipped=1)
    assert (
        "warning: skipped, and not checked against their baselines: test_speed.py::test_b"
        in text_of(result)
    )


def test_one_that_is_expected_to_fail_was_checked(gated):
    text = (gated.path / "test_speed.py").read_text()
    gated.write("test_speed.py", text.replace("def test_b", "@pytest.mark.xfail\ndef test_b"))
    gated.forget()
    gated.measured("test_a", 41.2)
    gated.measured("test_b", *[61.0] * 12)
    result = gated.run(ci=True)
    result.assert_outcomes(passed=1, xfailed=1)
    assert "not checked against their baselines" not in text_of(result)


def test_lf_that_runs_everything_looks_for_orphans(gated):
    gated.write("test_other.py", "def test_it(): raise ValueError\n")
    gated.run(ci=True)
    gated.write("test_other.py", "def test_renamed(): pass\n")
    gated.timing_tests("test_a")
    result = gated.run("--lf", ci=True)
    result.assert_outcomes(passed=2)
    assert "error: baselines without a test: test_speed.py::test_b" in text_of(result)


@pytest.mark.parametrize("how", ["rootdir", "argument"])
def test_a_link_hides_no_orphan_and_makes_none(gated, how):
    real = gated.path / "real"
    real.mkdir()
    (gated.path / "test_speed.py").rename(real / "test_speed.py")
    for name in ("test_a", "test_b"):
        gated.baseline(name, figures(41.2), file="real/test_speed.py")
    (gated.path / "link").symlink_to(real)
    shutil.rmtree(gated.path / "baselines") if how == "rootdir" else None
    if how == "rootdir":
        for name in ("test_a", "test_gone"):
            gated.baseline(name, figures(41.2))
        (real / "baselines").symlink_to(gated.path / "baselines")
        args = ["--rootdir=link", "link", "--kernelpin-baselines=baselines"]
    else:
        gated.measured("test_a", 41.2, file="link/test_speed.py")
        gated.measured("test_b", 41.2, file="link/test_speed.py")
        gated.baseline("test_gone", figures(41.2), file="real/test_speed.py")
        args = ["link"]
    text = text_of(gated.run(*args, ci=True))
    said = text.split("baselines without a test: ")[1].split(";")[0]
    assert said.endswith("test_speed.py::test_gone")
    assert ", " not in said


def test_pyargs_hides_no_orphan(gated):
    gated.timing_tests("test_a")
    gated.monkeypatch.syspath_prepend(gated.path)
    result = gated.run("--pyargs", "test_speed", ci=True)
    assert "error: baselines without a test: test_speed.py::test_b" in text_of(result)


def test_that_no_timing_test_is_left_is_red(gated):
    (gated.path / "test_speed.py").unlink()
    gated.write("test_other.py", "def test_it(): pass\n")
    result = gated.run(ci=True)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "error: baselines without a test: test_speed.py::test_a" in text_of(result)


@pytest.mark.parametrize("ci", [True, False])
def test_a_damaged_file_is_told_on_a_machine_without_a_gpu_too(project, ci):
    project.timing_tests("test_a", marks=("gpu",))
    project.write("test_theirs.py", "def test_it(): pass")
    folder = project.path / "baselines" / "nvidia-h200"
    folder.mkdir(parents=True)
    (folder / "test_speed.json").write_text("{\n<<<<<<< HEAD\n")
    with project.monkeypatch.context() as patch:
        patch.setenv("CI", "true") if ci else patch.delenv("CI", raising=False)
        result = project.pytester.runpytest()
    assert result.ret == (pytest.ExitCode.TESTS_FAILED if ci else pytest.ExitCode.OK)
    assert f"{'error' if ci else 'warning'}: " in text_of(result)
    assert "test_speed.json:2: merge conflict marker <<<<<<<" in text_of(result)


@pytest.mark.parametrize("how", ["module", "class", "xdist"])
def test_a_module_that_is_skipped_is_named_and_not_to_be_deleted(gated, how):
    skip = "pytest.importorskip('no_such_kernels')\n"
    if how == "class":
        body = f"class TestIt:\n    {skip}    def test_x(self, stopwatch): pass\n"
    else:
        body = f"{skip}def test_x(stopwatch): pass\n"
    gated.write("test_other.py", f"import pytest\n{body}")
    name = "TestIt::test_x" if how == "class" else "test_x"
    gated.baseline(name, figures(30.0), file="test_other.py")
    result = gated.run(*(["-n1"] if how == "xdist" else []), ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (said,) = [x for x in text_of(result).splitlines() if x.startswith("error: baselines")]
    assert said.startswith(
        f"error: baselines that nothing was compared with: test_other.py::{name}; test_other.py "
        "was skipped while it was collected (could not import 'no_such_kernels'"
    )
    assert said.endswith("): run where it is not")
    assert "prune" not in text_of(result)


def test_a_link_into_nowhere_is_no_missing_baseline(gated):
    path = gated.path / "baselines" / "nvidia-h200" / "test_speed.json"
    path.unlink()
    path.symlink_to("not-fetched.json")
    result = gated.run(ci=True)
    result.assert_outcomes(failed=2)
    assert "test_speed.json: is a link to not-fetched.json, which is not here" in text_of(result)
    assert gated.run("--kernelpin-update=all").ret == pytest.ExitCode.TESTS_FAILED
    assert path.is_symlink()
    assert not path.exists()
