"""gelu_tanh in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = torch.nn.functional.gelu(x, approximate="tanh")
    return y
