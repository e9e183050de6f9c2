"""The gradient of norm_linear: products by matmul, then the gradient of rms_norm.

Read next: norm_linear.py (AUTOGRAD), ops/norm/rms_norm_backward/.
"""

from __future__ import annotations

import torch

from .._given import as_matrix

_Tensor = torch.Tensor | None


def norm_linear(
    x: torch.Tensor, rms_w: torch.Tensor, weight: torch.Tensor, eps: float, dy: torch.Tensor
) -> tuple[_Tensor, _Tensor, _Tensor]:
    """Gradients of x, rms_w and weight; the normalised rows are recomputed."""
    ops = torch.ops.dlblas
    rows, g = as_matrix(x), as_matrix(dy)
    normed = ops.rms_norm(rows, rms_w, eps)
    dx, drms_w = ops.rms_norm_backward(ops.matmul(g, weight), rows, rms_w, None, eps)
    dweight = ops.matmul(g.t(), normed) if weight.requires_grad else None
    return dx.reshape(x.shape), drms_w, dweight


GRADIENTS = {"norm_linear": norm_linear}
