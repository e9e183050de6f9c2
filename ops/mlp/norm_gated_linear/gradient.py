"""The gradient of norm_gated_linear: that of gated_linear, then that of rms_norm.

Read next: norm_gated_linear.py (AUTOGRAD), ops/mlp/gradient.py.
"""

from __future__ import annotations

import torch

from .._given import as_matrix
from .mlp_gradient import gated  # ops/mlp/gradient.py

_Tensor = torch.Tensor | None


def norm_gated_linear(
    x: torch.Tensor, rms_w: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor,
    eps: float, activation: str, dy: torch.Tensor,
) -> tuple[_Tensor, _Tensor, _Tensor, _Tensor]:  # fmt: skip
    """Gradients of x, rms_w, w_gate and w_up; the normalised rows are recomputed."""
    ops = torch.ops.dlblas
    rows = as_matrix(x)
    normed = ops.rms_norm(rows, rms_w, eps)
    needed = (True, w_gate.requires_grad, w_up.requires_grad)
    dnormed, dgate, dup = gated(normed, w_gate, w_up, activation, dy, needed)
    dx, drms_w = ops.rms_norm_backward(dnormed, rows, rms_w, None, eps)
    return dx.reshape(x.shape), drms_w, dgate, dup


GRADIENTS = {"norm_gated_linear": norm_gated_linear}
