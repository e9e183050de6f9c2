"""filter_rows in torch, eager and compiled: the baseline of the benchmarks."""

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
    ordered = p.sort(-1, descending=True).values  # of equals all stay
    stays = torch.ones_like(ordered, dtype=torch.bool)
    if top_k is not None:
        last = top_k[..., None].long().clamp(1, p.shape[-1]) - 1
        stays = ordered >= ordered.gather(-1, last)
    if top_p is not None:
        left = ordered.where(stays, 0)
        before = left.cumsum(-1) - left
        reached = stays & (before < top_p[..., None] * left.sum(-1, keepdim=True))
        stays = stays & (ordered >= ordered.where(reached, torch.inf).amin(-1, keepdim=True))
    if min_p is not None:
        stays = stays & (ordered >= min_p[..., None] * ordered[..., :1])
    stays = p >= ordered.where(stays, torch.inf).amin(-1, keepdim=True)
    if not renorm:
        return x.where(stays, 0 if probs else -torch.inf)
    p = p.where(stays, 0)
    return (p / p.sum(-1, keepdim=True)).to(x.dtype)
