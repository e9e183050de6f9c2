"""filter_rows in torch: what is timed beside it, eager and compiled."""

from __future__ import annotations

import torch


def filter_rows(
    x: torch.Tensor,
    top_k: torch.Tensor | None = None,
    top_p: torch.Tensor | None = None,
    min_p: torch.Tensor | None = None,
    probs: bool = False,
    renorm: bool = False,
) -> torch.Tensor:
    p = x.float() if probs else torch.softmax(x.float(), -1)
    ordered, at = p.sort(-1, descending=True)
    stays = torch.ones_like(ordered, dtype=torch.bool)
    if top_k is not None:
        place = torch.arange(p.shape[-1], device=x.device)
        stays = place < top_k[..., None].clamp(min=1)
    if top_p is not None:
        left = ordered.where(stays, 0)
        stays = stays & (left.cumsum(-1) - left < top_p[..., None] * left.sum(-1, keepdim=True))
    if min_p is not None:
        stays = stays & (ordered >= min_p[..., None] * ordered[..., :1])
    stays = torch.zeros_like(stays).scatter(-1, at, stays)
    if not renorm:
        return x.where(stays, 0 if probs else -torch.inf)
    p = p.where(stays, 0)
    return (p / p.sum(-1, keepdim=True)).to(x.dtype)
