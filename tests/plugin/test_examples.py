"""The example project, taken through what docs/your-own-tests.md tells: run, record, gate."""

import shutil
from pathlib import Path

import pytest
import torch  # loaded before pytester looks, it stays loaded between its runs
from small_project import GPU, figures, text_of

from kernelpin.stopwatch import KernelFigure, Samples

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_module"
FILE = "tests/test_gated_mlp.py"
COUNTS = {"kernels": 5, "launches": 5, "ops": 29, "syncs": 0, "graphs": 0, "recompiles": 0}
EAGER = (KernelFigure("gemm", 3, 60.0), KernelFigure("gelu", 1, 30.0), KernelFigure("mul", 1, 28.0))


@pytest.fixture
def example(project):
    """The example as a clone of it is: without what a run has left."""
    for path in ("my_module", "tests", "pyproject.toml"):
        source, target = EXAMPLE / path, project.path / path
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (project.path / "tox.ini").unlink()  # the pytester's own configuration would win
    return project


def measure(example, *, eager, compiled=(180.0,), counts=COUNTS, kernels=EAGER):
    """Play what the runner's card measured."""
    example.forget()
    fields = {"file": FILE, "input": "bf16[8192,768]"}
    example.measured("test_time", *eager, kernels=kernels, **fields)
    example.measured("test_time_compiled", *compiled, **fields)
    samples = Samples(metric="counts", values=(), method="profiler", counts=counts)
    example.result("test_counts", file=FILE, samples=samples, gpu=GPU)


@pytest.mark.skipif(torch.cuda.is_available(), reason="about a machine without a GPU")
def test_without_a_gpu_the_claims_run_and_the_timings_skip(example):
    result = example.pytester.runpytest()
    result.assert_outcomes(passed=2, skipped=4)


def test_a_change_of_what_was_recorded_is_a_failed_claim(example):
    path = example.path / FILE
    path.write_text(path.read_text().replace('.launches(3, "gemm"', '.launches(2, "gemm"'))
    result = example.run("-k", "ran_one_kernel")
    result.assert_outcomes(failed=1)
    assert "expected 2 GEMM kernels and no other" in text_of(result)


def test_record_then_gate_then_a_slowdown_is_caught(example):
    measure(example, eager=figures(237.0), compiled=figures(180.0))
    recorded = example.run("--kernelpin-update=all", "-m", "gpu", FILE)
    recorded.assert_outcomes(passed=3, skipped=1)
    assert set(example.stored(GPU)) == {
        f"{FILE}::{name}" for name in ("test_time", "test_time_compiled", "test_counts")
    }

    measure(example, eager=(237.4,))
    gate = ("-m", "gpu", "-k", "test_time or test_counts", "--kernelpin-report=report")
    example.run(*gate, ci=True).assert_outcomes(passed=3)

    slow_kernels = (*EAGER, KernelFigure("add", 1, 31.0))
    measure(example, eager=figures(268.0, 5), kernels=slow_kernels, counts=COUNTS | {"kernels": 6})
    red = example.run(*gate, ci=True)
    red.assert_outcomes(passed=1, failed=2)
    summary = (example.path / "report" / "summary.md").read_text(encoding="utf-8")
    assert "1 slower, 1 other counts, 1 same on NVIDIA H200" in summary.splitlines()[0]
    assert "**new** <code>add</code>" in summary


def test_what_torch_compile_logs_does_not_flood_a_failure(example):
    example.write(
        "tests/test_logging.py",
        "import logging\n\n\ndef test_it():\n"
        "    log = logging.getLogger('torch.__trace')\n"
        "    log.setLevel(logging.DEBUG)  # as torch.compile sets it\n"
        "    log.debug('')\n"
        "    assert False\n",
    )
    result = example.pytester.runpytest("tests/test_logging.py")
    result.assert_outcomes(failed=1)
    assert "torch.__trace" not in text_of(result).replace("getLogger('torch.__trace')", "")
