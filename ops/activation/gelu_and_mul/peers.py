"""gelu_and_mul in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def gelu_and_mul(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.gelu(gate) * up
