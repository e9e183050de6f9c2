"""topk_gating_backward in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def topk_gating_backward(
    dl_aux: torch.Tensor,
    dweights: torch.Tensor,
    logits: torch.Tensor,
    kept: torch.Tensor,
    first_choices: torch.Tensor,
    k: int,
) -> torch.Tensor:
    tokens, experts = logits.shape
    gates = torch.softmax(logits.float(), 1)
    at, there = kept.view(k, tokens).t().long().clamp(min=0), kept.view(k, tokens).t() >= 0
    eps = torch.finfo(dweights.dtype).eps
    own = gates.gather(1, at) * there
    dw = dweights.view(k, tokens).t().float() * there
    total = own.sum(1, keepdim=True)
    least = total.clamp(min=eps)
    shared = torch.where(total < eps, 0.0, (dw * own).sum(1, keepdim=True) / least**2)
    dg = (dl_aux.float() * experts / tokens**2 * first_choices).expand(tokens, experts)
    dg = dg.scatter_add(1, at, (dw / least - shared) * there)
    return (gates * (dg - (gates * dg).sum(1, keepdim=True))).to(logits.dtype)
