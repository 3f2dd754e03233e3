"""torch.compile's state in this process, as far as it decides what is measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernelpin.stopwatch.samples import MeasureError


def fresh_compiler() -> None:
    """Make torch.compile forget earlier compilations; call it before each compiled workload.

    A second shape of one `forward` would else be compiled as dynamic, and the ninth run eagerly.
    """
    if "torch._dynamo" not in sys.modules:
        return
    import torch
    from torch._dynamo.utils import counters

    torch.compiler.reset()
    counters.clear()


@contextmanager
def no_silent_eager() -> Iterator[None]:
    """Turn torch.compile's fall-back to eager at the recompile limit into a `MeasureError`.

    By itself it leaves a log line, and the callable is measured without the compiler.
    """
    if "torch._dynamo" not in sys.modules:
        yield  # nothing is compiled before Dynamo is imported: `torch.compile` imports it
        return
    import torch

    config: Any = torch._dynamo.config
    name = "fail_on_recompile_limit_hit"
    if not hasattr(config, name):  # its name before torch 2.7
        name = "fail_on_cache_limit_hit"
    try:
        with config.patch(**{name: True}):
            yield
    except Exception as error:
        if not type(error).__name__.endswith("LimitHit"):
            raise
        raise MeasureError(
            f"torch.compile gave up: {_limit(config)} compilations of one function is its limit, "
            "and the next shape would run eagerly. call kernelpin.stopwatch.fresh_compiler() "
            "(torch.compiler.reset()) before each compiled workload"
        ) from error


def compilations() -> int:
    """Return how many graphs Dynamo has compiled in this process."""
    if "torch._dynamo" not in sys.modules:
        return 0
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _limit(config: Any) -> int:
    limit: int = getattr(config, "recompile_limit", None) or config.cache_size_limit
    return limit
