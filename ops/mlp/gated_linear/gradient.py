"""The gradient of gated_linear: products of matmul's, and the gate's slope in torch's operators.

In: what the operator was given, and the gradient of y. Out: gradients of x, w_gate and w_up. Both
sums are made again in f32, and the gradients of the sums are rounded to x's dtype, which products
take. Read next: gated_linear.py (AUTOGRAD), ops/gemm/matmul/gradient.py.
"""

from __future__ import annotations

import math

import torch

_Tensor = torch.Tensor | None


def _slope(gate: torch.Tensor, activation: str) -> tuple[torch.Tensor, torch.Tensor]:
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


def gated_linear(
    x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor, activation: str, dy: torch.Tensor
) -> tuple[_Tensor, _Tensor, _Tensor]:
    product = torch.ops.dlblas.matmul
    rows, wide = x.reshape(-1, x.shape[-1]), torch.float32
    gate = product(rows, w_gate.t(), out_dtype=wide)
    up = product(rows, w_up.t(), out_dtype=wide)
    value, slope = _slope(gate, activation)
    dy = dy.reshape(gate.shape).to(wide)
    dgate, dup = (dy * up * slope).to(x.dtype), (dy * value).to(x.dtype)
    dx = None
    if x.requires_grad:
        dx = product(dgate, w_gate, out_dtype=wide) + product(dup, w_up, out_dtype=wide)
        dx = dx.to(x.dtype).reshape(x.shape)
    return (
        dx,
        product(dgate.t(), rows) if w_gate.requires_grad else None,
        product(dup.t(), rows) if w_up.requires_grad else None,
    )


GRADIENTS = {"gated_linear": gated_linear}
