"""The gradient of a gated product, shared by gated_linear and norm_gated_linear: products by
matmul, the gate's slope in torch's operators.

Both sums are recomputed in f32, and the gradients of the sums are rounded to x's dtype, the input
dtype of the products. Read next: gated_linear/gradient.py, ops/gemm/matmul/gradient.py.
"""

from __future__ import annotations

import math

import torch

from .._given import as_matrix


def slope_of(gate: torch.Tensor, activation: str) -> tuple[torch.Tensor, torch.Tensor]:
    """act(gate) and its slope, in f32."""
    if activation == "relu":
        return gate.relu(), (gate > 0).to(gate.dtype)
    if activation == "silu":
        s = gate.sigmoid()
        return gate * s, s * (1 + gate * (1 - s))
    if activation == "gelu":
        share = 0.5 * (1 + torch.erf(gate / math.sqrt(2)))
        density = torch.exp(-0.5 * gate.square()) / math.sqrt(2 * math.pi)
        return gate * share, share + gate * density
    a = math.sqrt(2 / math.pi)
    t = torch.tanh(a * (gate + 0.044715 * gate**3))
    inner = a * (1 + 3 * 0.044715 * gate.square())
    return 0.5 * gate * (1 + t), 0.5 * (1 + t) + 0.5 * gate * (1 - t * t) * inner


def gated(
    x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor, activation: str, dy: torch.Tensor,
    needed: tuple[bool, bool, bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:  # fmt: skip
    """Gradients of x, w_gate and w_up; None for those that are not needed."""
    product, wide = torch.ops.dlblas.matmul, torch.float32
    rows = as_matrix(x)
    gate = product(rows, w_gate.t(), out_dtype=wide)
    up = product(rows, w_up.t(), out_dtype=wide)
    value, slope = slope_of(gate, activation)
    g = dy.reshape(gate.shape).to(wide)
    dgate, dup = (g * up * slope).to(x.dtype), (g * value).to(x.dtype)
    dx = None
    if needed[0]:
        dx = product(dgate, w_gate, out_dtype=wide) + product(dup, w_up, out_dtype=wide)
        dx = dx.to(x.dtype).reshape(x.shape)
    return (
        dx,
        product(dgate.t(), rows) if needed[1] else None,
        product(dup.t(), rows) if needed[2] else None,
    )
