"""topk_sigmoid in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def topk_sigmoid(
    logits: torch.Tensor, topk: int, renormalize: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    weights, ids = torch.topk(torch.sigmoid(logits.float()), topk, -1)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights, ids.int()
