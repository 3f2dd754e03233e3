"""Ops that change shape and stride alone launch nothing, for any shape and stride."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.sweep import examples, run_labelled
from kernelpin import capture

DEVICES = [pytest.param("cuda", marks=pytest.mark.gpu), pytest.param("cpu", marks=pytest.mark.cpu)]

# What PyTorch dispatches to copy a tensor, and nothing else.
COPIES = {"aten::copy_", "aten::clone", "aten::contiguous"}

METADATA_OPS = {
    "t": lambda x: x.t() if x.dim() <= 2 else x,
    "transpose": lambda x: x.transpose(0, -1) if x.dim() else x,
    "permute": lambda x: x.permute(tuple(reversed(range(x.dim())))),
    "view": lambda x: x.view(x.shape),
    "as_strided": lambda x: x.as_strided(x.shape, x.stride()),
    "expand": lambda x: x.unsqueeze(0).expand(3, *x.shape),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.squeeze(),
    "select": lambda x: x.select(0, 0) if x.dim() and x.shape[0] else x,
    "narrow": lambda x: x.narrow(0, 0, x.shape[0] // 2) if x.dim() else x,
    "detach": lambda x: x.detach(),
}

# Ways to give a tensor strides of its own; each is a view.
STRIDINGS = {
    "as made": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1) if x.dim() else x,
    "every other": lambda x: x[::2] if x.dim() else x,
    "last cut": lambda x: x[..., 1:] if x.dim() else x,
    "expanded": lambda x: x.unsqueeze(0).expand(2, *x.shape),
}

shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
inputs = st.tuples(shapes, st.sampled_from(sorted(STRIDINGS)))
CALLS = 40


def tensor(device, shape, striding):
    import torch

    return STRIDINGS[striding](torch.randn(shape, device=device))


def need(device):
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")


def copied(op):
    """Whether a label's calls copied: on a GPU what was launched, on a CPU what was dispatched."""
    return bool(op.kernels) or bool(COPIES & {below.name for below in op.ops()})


# Each example is one profiler session over many calls.
fixed = examples(4)


@pytest.mark.parametrize("device", DEVICES)
@fixed
@given(data=st.data())
def test_metadata_ops_launch_nothing(device, data):
    need(device)
    drawn = data.draw(
        st.lists(
            st.tuples(inputs, st.sampled_from(sorted(METADATA_OPS))),
            min_size=CALLS,
            max_size=CALLS,
        )
    )
    calls = []
    for number, ((shape, striding), name) in enumerate(drawn):
        x = tensor(device, shape, striding)
        calls.append(
            (f"{number} {name} {shape} {striding}", lambda x=x, n=name: METADATA_OPS[n](x))
        )
    for label, op in run_labelled(capture, calls).items():
        assert not op.kernels, label
        assert not copied(op), label


def must_copy_to_reshape(x, shape):
    """Whether no strides let `shape` address x's elements in order: view() refuses just then."""
    try:
        x.view(shape)
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize("device", DEVICES)
@fixed
@given(data=st.data())
def test_reshape_and_contiguous_copy_exactly_when_strides_demand_it(device, data):
    need(device)
    drawn = data.draw(st.lists(inputs, min_size=CALLS, max_size=CALLS))
    calls, expected = [], {}
    for number, (shape, striding) in enumerate(drawn):
        x = tensor(device, shape, striding)
        # Both copy nothing of nothing: an empty tensor launches no kernel whatever its strides.
        copies_work = x.numel() > 0 or device == "cpu"
        flat, contiguous = f"{number} reshape {x.shape}", f"{number} contiguous {x.shape}"
        expected[flat] = copies_work and must_copy_to_reshape(x, (x.numel(),))
        expected[contiguous] = copies_work and not x.is_contiguous()
        calls.append((flat, lambda x=x: x.reshape(x.numel())))
        calls.append((contiguous, lambda x=x: x.contiguous()))
    found = {label: copied(op) for label, op in run_labelled(capture, calls).items()}
    assert found == expected
