"""silu in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def silu(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = torch.nn.functional.silu(x)
    return y
