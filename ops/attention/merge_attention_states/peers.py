"""merge_attention_states in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def merge_attention_states(
    o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    lse = torch.logaddexp(lse1, lse2)
    first, second = (torch.exp(x - lse).unsqueeze(-1) for x in (lse1, lse2))
    return (first * o1 + second * o2).to(o1.dtype), lse
