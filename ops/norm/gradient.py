"""Shared by the gradients of layernorm_gated_rows and group_norm_rows, in f32.

Read next: ops/norm/group_norm_rows/gradient.py.
"""

from __future__ import annotations

import torch


def mean(x: torch.Tensor) -> torch.Tensor:
    return x.mean(-1, keepdim=True)


def normalise(
    x: torch.Tensor, eps: float, centres: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """x, less its mean if ``centres``, over its root mean square; and 1 / that root."""
    x = x - mean(x) if centres else x
    scale = (mean(x.square()) + eps).rsqrt()
    return x * scale, scale


def through_norm(
    g: torch.Tensor, n: torch.Tensor, scale: torch.Tensor, centres: bool = True
) -> torch.Tensor:
    """The gradient of x from g, the gradient of n; ``normalise`` returned n and scale."""
    dx = g - n * mean(g * n)
    return scale * (dx - mean(g) if centres else dx)


def silu_slope(x: torch.Tensor) -> torch.Tensor:
    s = x.sigmoid()
    return s * (1 + x * (1 - s))


def affine(n: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    y = n if weight is None else n * weight
    return y if bias is None else y + bias
