"""The gradient of gated_linear. Read next: ops/mlp/gradient.py, gated_linear.py (AUTOGRAD)."""

from __future__ import annotations

import torch

from .mlp_gradient import gated  # ops/mlp/gradient.py

_Tensor = torch.Tensor | None


def gated_linear(
    x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor, activation: str, dy: torch.Tensor
) -> tuple[_Tensor, _Tensor, _Tensor]:
    """Gradients of x, w_gate and w_up."""
    needed = (x.requires_grad, w_gate.requires_grad, w_up.requires_grad)
    return gated(x, w_gate, w_up, activation, dy, needed)


GRADIENTS = {"gated_linear": gated_linear}
