"""sample_rows in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def sample_rows(
    x: torch.Tensor,
    temperature: torch.Tensor | None = None,
    top_k: torch.Tensor | None = None,
    top_p: torch.Tensor | None = None,
    min_p: torch.Tensor | None = None,
    seeds: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    seed: int = 0,
    offset: int = 0,
    probs: bool = False,
) -> torch.Tensor:
    p = x.float() if probs else torch.softmax(
        x.float() if temperature is None else x.float() / temperature[..., None], -1
    )  # fmt: skip
    ordered, at = p.sort(-1, descending=True)
    if top_k is not None:
        place = torch.arange(p.shape[-1], device=x.device)
        ordered = ordered.where(place < top_k[..., None].clamp(min=1), 0)
    if top_p is not None:
        above = ordered.cumsum(-1) - ordered
        ordered = ordered.where(above < top_p[..., None] * ordered.sum(-1, keepdim=True), 0)
    if min_p is not None:
        ordered = ordered.where(ordered >= min_p[..., None] * ordered[..., :1], 0)
    drawn = (ordered / torch.empty_like(ordered).exponential_()).argmax(-1, keepdim=True)
    return at.gather(-1, drawn).int()
