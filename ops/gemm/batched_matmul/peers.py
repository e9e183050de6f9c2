"""batched_matmul in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def batched_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.bmm(a, b)
