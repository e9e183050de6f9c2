"""The gradient of l2_norm, in torch's operators: of ``y = x / n``, ``n = max(|x|, eps)``, ``dx =
(dy − y · Σ y · dy) / n``, and ``dy / eps`` up to a norm of eps.

Read next: l2_norm.py (AUTOGRAD), ../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import torch


def l2_norm(x: torch.Tensor, eps: float, dy: torch.Tensor) -> tuple[torch.Tensor]:
    """The norm is summed in f64, in whose range no square of f32 overflows."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float64)
    inverse = 1 / norm.clamp(min=eps)
    y = (x * inverse).float()
    along = (y * dy).sum(-1, keepdim=True) * (norm > eps)
    return (((dy - y * along) * inverse).to(x.dtype),)


GRADIENTS = {"l2_norm": l2_norm}
