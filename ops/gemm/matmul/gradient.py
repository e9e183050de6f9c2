"""The gradient of matmul: products by matmul itself, the activation's slope in torch's operators.

With ``g = dout · act′(a · b + bias)``: ``da = g · bᵀ``, ``db = aᵀ · g``, ``dbias = Σ_M g``. g is
rounded to a's dtype, the input dtype of the products; the sum before an activation is recomputed
in f32. Read next: matmul.py (AUTOGRAD), python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import torch

from .._given import as_matrix
from .gemm_gradient import slope  # ops/gemm/gradient.py

_Tensor = torch.Tensor | None


def matmul(
    a: torch.Tensor, b: torch.Tensor, activation: str, bias: _Tensor, out_dtype: torch.dtype | None,
    dout: torch.Tensor,
) -> tuple[_Tensor, _Tensor, _Tensor]:  # fmt: skip
    """Gradients of a, b and bias; None for those that are not needed."""
    product, wide = torch.ops.dlblas.matmul, torch.float32
    rows, g = as_matrix(a), as_matrix(dout).contiguous()
    if activation:
        g = g.to(wide) * slope(product(rows, b, bias=bias, out_dtype=wide), activation)
    dbias = None
    if bias is not None and bias.requires_grad:
        dbias = g.sum(0, dtype=wide).to(bias.dtype)
    g = g.to(a.dtype)
    da = product(g, b.t()).reshape(a.shape) if a.requires_grad else None
    db = None
    if b.requires_grad:
        # The gradient of a linear layer's transposed weight keeps the weight's layout.
        turned = b.stride(0) == 1 and b.stride(1) != 1
        db = product(g.t(), rows).t() if turned else product(rows.t(), g)
    return da, db, dbias


GRADIENTS = {"matmul": matmul}
