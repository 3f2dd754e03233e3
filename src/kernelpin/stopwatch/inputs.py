"""A callable's inputs in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


def describe_inputs(args: Iterable[Any]) -> str:
    """Name the tensors among the arguments: `bf16[1024,32] × bf16[32,64]`.

    Two measurements of one test compare only where this text is the same.
    """
    return " × ".join(_tensors(args))


def _tensors(args: Iterable[Any]) -> Iterator[str]:
    for arg in args:
        if hasattr(arg, "dtype") and hasattr(arg, "shape"):
            dtype = str(arg.dtype).removeprefix("torch.")
            yield f"{_DTYPES.get(dtype, dtype)}[{','.join(map(str, arg.shape))}]"
        elif isinstance(arg, (tuple, list)):
            yield from _tensors(arg)
        elif isinstance(arg, dict):
            yield from _tensors(arg.values())
