"""topk_sigmoid in torch: what is timed beside it, eager and compiled."""

from __future__ import annotations

import torch


def topk_sigmoid(
    logits: torch.Tensor, topk: int, renormalize: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    weights, ids = torch.topk(torch.sigmoid(logits.float()), topk, -1)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights, ids.int()
