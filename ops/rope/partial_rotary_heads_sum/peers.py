"""partial_rotary_heads_sum in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def partial_rotary_heads_sum(
    dk_pe: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    total = dk_pe.sum(-2)
    low, high = (total * cos).chunk(2, -1)
    sin_low, sin_high = (total * sin).chunk(2, -1)
    return torch.stack((low + sin_high, high - sin_low), -1).flatten(-2)
