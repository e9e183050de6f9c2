"""batched_matmul_nt in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def batched_matmul_nt(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.bmm(a, b.transpose(1, 2))
