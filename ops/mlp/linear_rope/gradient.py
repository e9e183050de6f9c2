"""The gradient of linear_rope: the transposed rotation in torch's operators and f32, then the
gradient of a linear layer.

Nothing but the inputs is kept; z = x · weightᵀ + bias is recomputed where a table needs a gradient.
Read next: linear_rope.py (AUTOGRAD), ../rotated_projection.py (the same after a norm).
"""

from __future__ import annotations

import math

import torch

_Tensor = torch.Tensor | None


def _pairs(x: torch.Tensor, style: str) -> tuple[torch.Tensor, ...]:
    """Both channels of each pair of heads ``[T, H, 2Dh]``, as f32."""
    x = x.float()
    return x.chunk(2, -1) if style == "neox" else (x[..., 0::2], x[..., 1::2])


def _whole(low: torch.Tensor, high: torch.Tensor, style: str) -> torch.Tensor:
    return (
        torch.cat((low, high), -1) if style == "neox" else torch.stack((low, high), -1).flatten(2)
    )


def linear_rope(
    x: torch.Tensor, weight: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, heads: int,
    style: str, bias: _Tensor, dy: torch.Tensor,
) -> tuple[_Tensor, ...]:  # fmt: skip
    """Gradients of all tensors, in the order of the arguments; None for those not needed."""
    matmul, count, width = torch.ops.dlblas.matmul, math.prod(x.shape[:-1]), cos.shape[-1]
    rows, g, turned = x.reshape(count, x.shape[-1]), dy.reshape(count, dy.shape[-1]), heads * width
    at = torch.arange(count, device=x.device) % cos.shape[0]  # row t reads row t mod S
    tables = [table[at][:, None] for table in (cos, sin)]
    (cos_l, cos_h), (sin_l, sin_h) = (table.float().chunk(2, -1) for table in tables)
    low, high = _pairs(g[:, :turned].reshape(count, heads, width), style)
    back = _whole(low * cos_l + high * sin_h, high * cos_h - low * sin_l, style)
    dz = torch.cat((back.reshape(count, turned).to(x.dtype), g[:, turned:]), -1)
    dcos = dsin = None
    if cos.requires_grad or sin.requires_grad:
        some = None if bias is None else bias[:turned]
        z = matmul(rows, weight[:turned].t(), bias=some, out_dtype=torch.float32)
        z_l, z_h = _pairs(z.reshape(count, heads, width), style)
        dcos = _of_table(torch.cat((low * z_l, high * z_h), -1), at, cos)
        dsin = _of_table(torch.cat((-low * z_h, high * z_l), -1), at, sin)
    return (
        matmul(dz, weight).reshape(x.shape) if x.requires_grad else None,
        matmul(dz.t(), rows) if weight.requires_grad else None,
        dcos,
        dsin,
        None if bias is None else dz.sum(0, dtype=torch.float32).to(bias.dtype),
    )


def _of_table(each: torch.Tensor, at: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Gradients of all tokens and heads, summed into the rows that they read."""
    made = torch.zeros(table.shape, dtype=torch.float32, device=table.device)
    return made.index_add(0, at, each.sum(1)).to(table.dtype)


GRADIENTS = {"linear_rope": linear_rope}
