"""The gradients of routers and of the moves of rows, in torch's operators, in f32: through the
weights of the chosen experts, and back along the positions that moe_permute gave.

Choices (ids, positions) are constants of a gradient. Read next: topk_softmax/topk_softmax.py and
moe_permute/moe_permute.py (AUTOGRAD), ../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import torch

_Grad = torch.Tensor | None


def _to_logits(
    logits: torch.Tensor, w: torch.Tensor, ids: torch.Tensor, dw: torch.Tensor, scoring: str,
    renormalize: bool,
) -> torch.Tensor:  # fmt: skip
    """dlogits of weights ``w = scale · s[ids]``, over ``Σ s[ids]`` if ``renormalize``, with ``s =
    σ(logits)`` or ``softmax_E(logits)``."""
    ids = ids.long()
    x = logits.float()
    chosen = w * dw
    if renormalize:  # the mean of dw by the weights, which sum to scale
        total = w.sum(-1, keepdim=True)
        chosen = chosen - w * (chosen.sum(-1, keepdim=True) / total)
    if scoring == "sigmoid":
        chosen = chosen * torch.sigmoid(-x.gather(-1, ids))
    dx = torch.zeros_like(x).scatter(-1, ids, chosen)
    if scoring == "softmax" and not renormalize:
        dx = dx - x.softmax(-1) * chosen.sum(-1, keepdim=True)
    return dx.to(logits.dtype)


def topk_softmax(
    logits: torch.Tensor, topk: int, renormalize: bool, weights: torch.Tensor, ids: torch.Tensor,
    dweights: torch.Tensor, _: object,
) -> tuple[_Grad]:  # fmt: skip
    return (_to_logits(logits, weights, ids, dweights, "softmax", renormalize),)


def topk_sigmoid(
    logits: torch.Tensor, topk: int, renormalize: bool, weights: torch.Tensor, ids: torch.Tensor,
    dweights: torch.Tensor, _: object,
) -> tuple[_Grad]:  # fmt: skip
    return (_to_logits(logits, weights, ids, dweights, "sigmoid", renormalize),)


def grouped_topk(
    logits: torch.Tensor, bias: torch.Tensor | None, topk: int, num_groups: int, topk_groups: int,
    renormalize: bool, scale: float, scoring: str, num_fused_shared_experts: int,
    weights: torch.Tensor, ids: torch.Tensor, dweights: torch.Tensor, _: object,
) -> tuple[_Grad, _Grad]:  # fmt: skip
    """bias takes part in the choice alone: it has no gradient."""
    dw = dweights[..., :topk]
    if num_fused_shared_experts:  # each of their weights is Σ weights / scale
        dw = dw + dweights[..., topk:].sum(-1, keepdim=True) / scale
    w, chosen = weights[..., :topk], ids[..., :topk]
    return _to_logits(logits, w, chosen, dw, scoring, renormalize), None


def moe_permute(
    x: torch.Size, topk_ids: torch.Size, num_experts: int, inverse: torch.Tensor,
    drows: torch.Tensor, *_: object,
) -> tuple[_Grad, _Grad]:  # fmt: skip
    """dx[t] = Σ_j drows[inverse[t, j]]: moe_unpermute with weights of 1."""
    ones = torch.ones(inverse.shape, dtype=torch.float32, device=inverse.device)
    return torch.ops.dlblas.moe_unpermute(drows, inverse, ones), None


def moe_unpermute(
    rows: torch.Tensor, inverse: torch.Tensor, topk_weights: torch.Tensor, dy: torch.Tensor
) -> tuple[_Grad, _Grad, _Grad]:
    """drows[inverse[t, j]] = topk_weights[t, j] · dy[t]; dtopk_weights[t, j] = rows[inverse[t, j]]
    · dy[t]. A choice without a row adds to neither."""
    count = rows.shape[0]
    at = inverse.long().flatten()
    there = (at >= 0) & (at < count)
    at = at.where(there, count)  # one row more, which is cut off
    each = topk_weights.float().unsqueeze(-1) * dy.float().unsqueeze(-2)  # [T, topk, C]
    drows = each.new_zeros(count + 1, rows.shape[1]).index_add(0, at, each.flatten(0, 1))
    padded = torch.cat((rows, rows.new_zeros(1, rows.shape[1])))
    products = padded[at].unflatten(0, inverse.shape).float() * dy.float().unsqueeze(-2)
    dweights = products.sum(-1).to(topk_weights.dtype)
    return drows[:count].to(rows.dtype), None, dweights


def moe_sum(x: torch.Size, dy: torch.Tensor) -> tuple[_Grad]:
    return (dy.unsqueeze(-2).expand(x),)


GRADIENTS = {
    "grouped_topk": grouped_topk,
    "moe_permute": moe_permute,
    "moe_sum": moe_sum,
    "moe_unpermute": moe_unpermute,
    "topk_sigmoid": topk_sigmoid,
    "topk_softmax": topk_softmax,
}
