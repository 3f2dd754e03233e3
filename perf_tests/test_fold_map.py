"""The fold map: which kernels serve `nn.Linear`, and whether compiled it runs eager's.

The live GPU is held to what was recorded on its like. Recording is the same command with
`--kernelpin-record`; the compiled sweep takes under a minute.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.sweep import (
    LinearInputs,
    Summary,
    as_compiled_test,
    as_test,
    compiled_shapes,
    run_labelled,
    shapes,
    sweep_compiled,
)
from kernelpin import folds
from kernelpin.plugin.settings import ci_variable
from kernelpin.render import tree
from kernelpin.trace import slugify

BASELINES = Path(__file__).parents[1] / "baselines"
MAPS = sorted(BASELINES.glob("*/fold_map.json"))


def holds(shape: folds.Shape, name: str) -> bool:
    """The rule: where M, K and N exceed 1, a 16-bit bias folds, however x lies in memory.

    fp32 is no part of it: for some shapes cuBLAS takes a kernel without epilogue on an H200
    (`sgemm_largek…`), with kernels before and after it for beta and bias.
    """
    promised = shape.plain and shape.dtype != "fp32"
    return not promised or folds.folds(name)


@pytest.fixture(scope="module")
def live_sweep():
    """What each shape runs on this GPU, with its annotation."""
    torch = need_gpu()
    from kernelpin import capture

    inputs = LinearInputs("cuda")
    calls = [(str(s), lambda s=s: torch.nn.functional.linear(*inputs(s))) for s in shapes()]
    with torch.no_grad():
        return run_labelled(capture, calls)


@pytest.fixture(scope="module")
def compiled_sweep():
    """What each chosen shape runs on this GPU, eager and compiled."""
    need_gpu()
    from kernelpin import capture

    return sweep_compiled(capture, LinearInputs("cuda"), compiled_shapes())


@pytest.mark.gpu
def test_live_shapes_run_what_the_map_says(live_sweep, request):
    import torch

    found = {folds.Shape.parse(text): folds.classify(op.kernels) for text, op in live_sweep.items()}
    path = map_of_this_gpu()
    if request.config.getoption("--kernelpin-record"):
        device, compiled = torch.cuda.get_device_name(), compiled_part(path)
        folds.store(path, folds.FoldMap.of(device, versions(), found, compiled))
    stored = recorded(path)
    missing = sorted(set(stored.by_shape()) - set(found))
    assert not missing, f"{len(missing)} shapes of {path} were not swept, e.g. {missing[0]}"
    changed = [f"{s}: was {was}, is {now}" for s, was, now in stored.changes(found)]
    assert not changed, (
        f"{len(changed)} of {len(found)} shapes are served by other kernels than the map says "
        f"(recorded with torch {stored.recorded_on.get('torch')}, here {torch.__version__}):\n  "
        + "\n  ".join(changed)
        + f"\nthe first as a test:{as_test(stored.changes(found)[0][0])}"
    )


@pytest.mark.gpu
def test_compiled_linear_runs_eagers_kernels_or_is_an_exception_on_the_map(compiled_sweep, request):
    import torch

    path = map_of_this_gpu()
    if request.config.getoption("--kernelpin-record"):
        part = folds.CompiledMap.of(with_triton(versions()), compiled_sweep.pairs)
        folds.store(path, replace(folds.load(path), compiled=part))
        lines = [f"{path}, in {compiled_sweep.seconds:.0f} s", *folds.draw_compiled(part)]
        lines += [f"NOT RECORDED {s}: {why}" for s, why in compiled_sweep.errors.items()]
        request.config.pluginmanager.register(Summary("fold map", lines))
    part = recorded(path, compiled=True).compiled
    differences = [
        difference
        for difference in part.differences(compiled_sweep.pairs)
        if difference.shape not in compiled_sweep.errors
    ]
    wrong = [f"{s}: cannot be compiled or run: {why}" for s, why in compiled_sweep.errors.items()]
    wrong += [line for difference in differences for line in difference.lines()]
    apart = [d.shape for d in differences if d.now is not None and not d.now.agrees]
    if wrong:
        ready = f"\nthe first that differs as a test:{as_compiled_test(apart[0])}" if apart else ""
        pytest.fail(
            f"{len(compiled_sweep.errors) + len(differences)} of {len(compiled_shapes())} shapes "
            f"are not as {path} says of compiled nn.Linear (recorded with torch "
            f"{part.recorded_on.get('torch')}, here {torch.__version__}):\n  "
            + "\n  ".join(wrong)
            + ready,
            pytrace=False,
        )


@pytest.mark.gpu
def test_eager_and_compiled_outputs_agree_for_every_class_dtype_and_form(compiled_sweep):
    told = {**compiled_sweep.errors, **compiled_sweep.apart}
    if told:
        lines = "\n  ".join(f"{shape}: {why}" for shape, why in told.items())
        pytest.fail(f"{len(told)} shapes do not agree:\n  {lines}", pytrace=False)


@pytest.mark.gpu
def test_the_bias_of_a_plain_shape_folds_on_the_live_gpu(live_sweep):
    broken = [
        text
        for text, op in live_sweep.items()
        if not holds(folds.Shape.parse(text), folds.classify(op.kernels))
    ]
    smallest = min(broken, key=lambda text: _size(folds.Shape.parse(text)), default=None)
    assert smallest is None, (
        f"{len(broken)} plain shapes do not fold their bias; the smallest is {smallest}:\n"
        + "\n".join(tree(live_sweep[smallest]))
        + f"\nas a test:{as_test(folds.Shape.parse(smallest))}"
    )


@pytest.mark.parametrize("path", MAPS, ids=lambda p: p.parent.name)
def test_the_bias_of_a_plain_shape_folds_on_recorded_gpus(path):
    broken = {s: name for s, name in folds.load(path).by_shape().items() if not holds(s, name)}
    smallest = min(broken, key=_size, default=None)
    assert smallest is None, (
        f"{len(broken)} plain shapes do not fold; the smallest: {smallest}: {broken[smallest]}"
    )


def need_gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return torch


def map_of_this_gpu():
    import torch

    return BASELINES / slugify(torch.cuda.get_device_name()) / "fold_map.json"


def compiled_part(path):
    """What a new recording of the classes leaves as it is; it tells its own versions."""
    try:
        return folds.load(path).compiled
    except folds.FoldMapError:
        return None


def recorded(path, *, compiled=False):
    """Give the map; one not recorded is a skip with the command, and a failure under CI."""
    try:
        return folds.load(path, compiled=compiled)
    except folds.NotRecorded as error:
        if ci_variable():
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def versions():
    import torch

    return {
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def with_triton(told):
    """Its version decides what is compiled, and nothing of what runs eagerly."""
    try:
        import triton
    except ImportError:
        return told
    return {**told, "triton": str(triton.__version__)}


def _size(shape: folds.Shape) -> int:
    return shape.m * shape.k * shape.n
