"""batched_matmul in torch: the benchmark peer, eager and compiled by Inductor."""

from __future__ import annotations

import torch


def batched_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.bmm(a, b)
