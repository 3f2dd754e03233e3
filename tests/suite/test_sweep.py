"""The sweep: the same shapes every time, operands of those shapes, a failure as a ready test."""

from __future__ import annotations

import pytest

from fixtures.sweep import DTYPES, EDGES, FORMS, LinearInputs, as_test, shapes
from kernelpin.folds import Shape


def test_a_sweep_is_the_same_every_time_and_has_no_shape_twice():
    assert shapes() == shapes()
    assert len(set(shapes())) == len(shapes()) == 600


def test_a_sweep_has_the_edges_every_form_every_dtype_and_batch_0():
    found = shapes()
    assert {s.form for s in found} == {"contiguous", *FORMS}
    assert {s.dtype for s in found} == set(DTYPES)
    assert Shape(0, 64, 32, "bf16") in found
    assert {Shape(m, 1, n, "fp32") for m in EDGES for n in EDGES} <= set(found)


@pytest.mark.cpu
@pytest.mark.parametrize("form", ["contiguous", *FORMS])
def test_operands_have_the_shape_and_the_layout_asked_for(form):
    import torch

    inputs = LinearInputs("cpu", elements=10_000)
    x, weight, bias = inputs(Shape(8, 5, 3, "fp32", form))
    assert torch.nn.functional.linear(x, weight, bias).numel() == 8 * 3
    assert x.dim() == (3 if form == "3d" else 2)
    assert x.is_contiguous() is (form in ("contiguous", "3d"))
    assert x.std() > 0.5


def test_a_failure_is_printed_as_a_test_that_python_reads():
    source = as_test(Shape(16, 4096, 1, "bf16", "sliced"))
    names = {}
    exec(compile(source, "ready test", "exec"), names)
    assert callable(names["test_16x4096x1_bf16"])
