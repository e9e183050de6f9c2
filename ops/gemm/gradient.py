"""Shared by the gradients of products: an activation's slope, in torch's operators and f32, and the
gradients of batched products.

Read next: matmul/gradient.py, batched_matmul/gradient.py.
"""

from __future__ import annotations

import math

import torch


def slope(x: torch.Tensor, activation: str) -> torch.Tensor:
    if activation == "relu":
        return (x > 0).to(x.dtype)
    if activation == "leaky_relu":
        return torch.where(x > 0, 1.0, 0.01)
    if activation == "silu":
        s = x.sigmoid()
        return s * (1 + x * (1 - s))
    density = torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
    return 0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * density


def of_batch(
    a: torch.Tensor, b: torch.Tensor, activation: str, bias: torch.Tensor | None,
    dout: torch.Tensor, turned: bool,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:  # fmt: skip
    """Gradients of a ``[B, M, K]``, b ``[B, K, N]`` (``turned``: ``[B, N, K]``) and bias ``[N]``;
    None for those that are not needed."""
    ops, wide = torch.ops.dlblas, torch.float32
    by_columns, by_rows = ops.batched_matmul, ops.batched_matmul_nt
    g = dout
    if activation:
        again = by_rows if turned else by_columns
        g = g.to(wide) * slope(again(a, b, bias=bias, out_dtype=wide), activation)
    dbias = None
    if bias is not None and bias.requires_grad:
        dbias = g.sum((0, 1), dtype=wide).to(bias.dtype)
    g = g.to(a.dtype)
    da = db = None
    if a.requires_grad:
        da = by_columns(g, b) if turned else by_rows(g, b)
    if b.requires_grad:
        db = by_columns(g.mT, a) if turned else by_columns(a.mT, g)
    return da, db, dbias


def rows_of_groups(rows: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """``rows[m] · weight[e]ᵀ`` for the rows of each group, 0 for those in none. In grad mode it can
    be differentiated again."""
    ops = torch.ops.dlblas
    if torch.is_grad_enabled():
        made = ops.grouped_gemm_rows(rows, weight, offsets)
        at = torch.arange(rows.shape[0], device=rows.device)
        there = (at >= offsets[0]) & (at < offsets[-1])
        return made.where(there[:, None], made.new_zeros(()))
    made = rows.new_zeros((rows.shape[0], weight.shape[1]))
    ops.grouped_gemm_rows_out(rows, weight, offsets, made)
    return made
