"""grouped_topk in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def grouped_topk(
    logits: torch.Tensor,
    bias: torch.Tensor | None = None,
    topk: int = 8,
    num_groups: int = 1,
    topk_groups: int = 1,
    renormalize: bool = True,
    scale: float = 1.0,
    scoring: str = "sigmoid",
) -> tuple[torch.Tensor, torch.Tensor]:
    x = logits.float()
    scores = torch.sigmoid(x) if scoring == "sigmoid" else torch.softmax(x, -1)
    biased = scores if bias is None else scores + bias
    groups = biased.view(*biased.shape[:-1], num_groups, -1)
    best = groups.topk(min(2, groups.shape[-1]), -1).values.sum(-1).topk(topk_groups, -1).indices
    kept = torch.zeros(groups.shape[:-1], dtype=torch.bool, device=x.device).scatter_(
        -1, best, True
    )
    masked = groups.masked_fill(~kept.unsqueeze(-1), -torch.inf).view(biased.shape)
    ids = masked.topk(topk, -1).indices
    weights = scores.gather(-1, ids)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights * scale, ids.int()
