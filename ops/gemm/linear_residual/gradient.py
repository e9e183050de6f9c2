"""The gradient of linear_residual: products by matmul, the rest in torch's operators and f32.

With ``s = row_scale · column_scale``, ``p = x · weightᵀ`` and ``g = dy · act′(s · p + bias)``:
``dx = (g · s) · weight``, ``dweight = (g · s)ᵀ · x``, ``dbias = Σ_T g``, ``dresidual = dy``,
``drow_scale = Σ_N g · column_scale · p``, ``dcolumn_scale = Σ_T g · row_scale · p``. ``g · s`` is
rounded to x's dtype, the input dtype of the products. Read next: linear_residual.py (AUTOGRAD),
ops/gemm/matmul/gradient.py.
"""

from __future__ import annotations

import torch

from .._given import as_matrix
from .gemm_gradient import slope  # ops/gemm/gradient.py

_Tensor = torch.Tensor | None


def _needs(tensor: _Tensor) -> bool:
    return tensor is not None and tensor.requires_grad


def linear_residual(
    x: torch.Tensor, weight: torch.Tensor, activation: str, bias: _Tensor, residual: _Tensor,
    row_scale: _Tensor, column_scale: _Tensor, out_dtype: torch.dtype | None, dy: torch.Tensor,
) -> tuple[_Tensor, ...]:  # fmt: skip
    """Gradients of x, weight, bias, residual, row_scale and column_scale; None if not needed."""
    product, wide = torch.ops.dlblas.matmul, torch.float32
    rows, g = as_matrix(x), as_matrix(dy)
    dresidual = None
    if residual is not None and residual.requires_grad:
        dresidual = dy.to(residual.dtype)
    factors = [None if row_scale is None else as_matrix(row_scale), column_scale]
    g = g.to(wide)
    p = None
    if activation or _needs(row_scale) or _needs(column_scale):
        p = product(rows, weight.t(), out_dtype=wide)
    if activation:
        g = g * slope(_with(_scaled(p, factors), bias), activation)
    dbias = drow = dcolumn = None
    if bias is not None and bias.requires_grad:
        dbias = g.sum(0).to(bias.dtype)
    if p is not None and row_scale is not None and row_scale.requires_grad:
        drow = _scaled(g * p, factors[1:]).sum(1, keepdim=True).reshape(row_scale.shape)
    if p is not None and column_scale is not None and column_scale.requires_grad:
        dcolumn = _scaled(g * p, factors[:1]).sum(0)
    g = _scaled(g, factors).to(x.dtype).contiguous()
    dx = product(g, weight).reshape(x.shape) if x.requires_grad else None
    dweight = product(g.t(), rows) if weight.requires_grad else None
    return dx, dweight, dbias, dresidual, drow, dcolumn


def _scaled(p: torch.Tensor, factors: list[_Tensor]) -> torch.Tensor:
    for factor in factors:
        if factor is not None:
            p = p * factor
    return p


def _with(p: torch.Tensor, bias: _Tensor) -> torch.Tensor:
    return p if bias is None else p + bias


GRADIENTS = {"linear_residual": linear_residual}
