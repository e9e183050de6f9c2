"""gelu in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def gelu(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = torch.nn.functional.gelu(x)
    return y
