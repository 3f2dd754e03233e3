"""A module of your own: a gated MLP."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class GatedMLP(nn.Module):
    """`down(gelu(gate(x)) * up(x))`, from `dim` to `dim` by way of `hidden`."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))


__all__ = ["GatedMLP"]
