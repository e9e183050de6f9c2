"""The gradient of rms_norm_rope in torch's own operators, in f32; recomputes the statistics.

The gradient of a rotation is the inverse rotation; its result then passes through the norm, which
spans all heads of a token. Read next: ../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

from typing import Any

import torch


def rms_norm_rope(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    eps: float,
    dy: torch.Tensor,
) -> tuple[torch.Tensor | None, ...]:
    """Gradients of x, weight, cos and sin, where needed; 0 for the tables' second halves, which the
    forward pass does not read."""
    wide, half = x.float(), x.shape[-1] // 2
    c, s = (table[..., None, :half].float() for table in (cos, sin))
    low, high = dy.float().split(half, -1)
    g = torch.cat((low * c + high * s, high * c - low * s), -1)  # at the normalised row

    scale = (wide.square().mean((-2, -1), keepdim=True) + eps).rsqrt()
    n = wide * scale
    gain = weight.float()
    through = g * gain
    dx = scale * (through - n * (through * n).mean((-2, -1), keepdim=True))
    dweight = (g * n).sum_to_size(weight.shape) if weight.requires_grad else None

    def of_table(first: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        first = first.sum(-2).to(table.dtype)
        if table.shape[-1] == half:
            return first
        return torch.cat((first, torch.zeros_like(first)), -1)

    n_low, n_high = (n * gain).split(half, -1)
    return (
        dx.to(x.dtype),
        None if dweight is None else dweight.to(weight.dtype),
        of_table(low * n_low + high * n_high, cos) if cos.requires_grad else None,
        of_table(high * n_low - low * n_high, sin) if sin.requires_grad else None,
    )


GRADIENTS: dict[str, Any] = {"rms_norm_rope": rms_norm_rope}
