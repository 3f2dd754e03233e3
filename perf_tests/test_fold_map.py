"""Where the bias of `nn.Linear` folds into the GEMM: the live GPU is held to its recorded map."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from fixtures.sweep import LinearInputs, as_test, run_labelled, shapes
from kernelpin import folds
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
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    from kernelpin import capture

    inputs = LinearInputs("cuda")
    calls = [(str(s), lambda s=s: torch.nn.functional.linear(*inputs(s))) for s in shapes()]
    with torch.no_grad():
        return run_labelled(capture, calls)


@pytest.mark.gpu
def test_live_shapes_run_what_the_map_says(live_sweep, request):
    import torch

    found = {folds.Shape.parse(text): folds.classify(op.kernels) for text, op in live_sweep.items()}
    device = torch.cuda.get_device_name()
    path = BASELINES / slugify(device) / "fold_map.json"
    if request.config.getoption("--kernelpin-record"):
        versions = {
            "torch": str(torch.__version__),
            "cuda": str(torch.version.cuda),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(folds.dump(folds.FoldMap.of(device, versions, found)), encoding="utf-8")
    stored = folds.load(path)
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


def _size(shape: folds.Shape) -> int:
    return shape.m * shape.k * shape.n
