"""The gradient of matmul: products of its own, and an activation's slope in torch's operators.

With ``g = dout · act′(a · b + bias)``: ``da = g · bᵀ``, ``db = aᵀ · g``, ``dbias = Σ_M g``. g is
rounded to a's dtype, which products take; the sum before an activation is made again, in f32. Read
next: matmul.py (AUTOGRAD), python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import math

import torch

_Tensor = torch.Tensor | None


def _slope(x: torch.Tensor, activation: str) -> torch.Tensor:
    if activation == "relu":
        return (x > 0).to(x.dtype)
    if activation == "leaky_relu":
        return torch.where(x > 0, 1.0, 0.01)
    if activation == "silu":
        s = x.sigmoid()
        return s * (1 + x * (1 - s))
    density = torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
    return 0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * density


def matmul(
    a: torch.Tensor, b: torch.Tensor, activation: str, bias: _Tensor, out_dtype: torch.dtype | None,
    dout: torch.Tensor,
) -> tuple[_Tensor, _Tensor, _Tensor]:  # fmt: skip
    """Gradients of a, b and bias, as far as they are needed."""
    product, wide = torch.ops.dlblas.matmul, torch.float32
    rows, g = a.reshape(-1, a.shape[-1]), dout.reshape(-1, dout.shape[-1]).contiguous()
    if activation:
        g = g.to(wide) * _slope(product(rows, b, bias=bias, out_dtype=wide), activation)
    dbias = None
    if bias is not None and bias.requires_grad:
        dbias = g.sum(0, dtype=wide).to(bias.dtype)
    g = g.to(a.dtype)
    da = product(g, b.t()).reshape(a.shape) if a.requires_grad else None
    db = None
    if b.requires_grad:
        # The transpose of a linear layer's weight has a gradient that lies as the weight does.
        turned = b.stride(0) == 1 and b.stride(1) != 1
        db = product(g.t(), rows).t() if turned else product(rows.t(), g)
    return da, db, dbias


GRADIENTS = {"matmul": matmul}
