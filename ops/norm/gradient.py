"""Shared by the gradients of layernorm_gated_rows and group_norm_rows: how they call their backward
operators, and, for a second derivative, their formulas in torch's own operators, in f32.

Read next: ops/norm/group_norm_rows/gradient.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def by_operator(
    backward: Callable[..., Any], dy: torch.Tensor, tensors: tuple[torch.Tensor | None, ...],
    *scalars: Any,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """The results of a backward operator of dy and the forward operator's ``tensors``. A gradient
    whose columns are not neighbours, as after ``.sum()``, is copied first."""
    made: tuple[torch.Tensor, ...] = backward(
        dy if dy.stride(-1) == 1 else dy.contiguous(), *tensors, *scalars
    )
    return made


def of_phases(vector: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Row t % groups of ``vector`` [groups, C] for each row t of ``like`` [*T, C']."""
    rows = torch.arange(like[..., :1].numel(), device=vector.device) % vector.shape[0]
    return vector.float()[rows].reshape(*like.shape[:-1], vector.shape[-1])


def to_phases(terms: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The sum over the rows t with the same t % groups of ``terms`` [*T, C], as ``like``."""
    flat = terms.reshape(-1, terms.shape[-1])
    rows = torch.arange(flat.shape[0], device=flat.device) % like.shape[0]
    made = flat.new_zeros(like.shape[0], flat.shape[1]).index_add(0, rows, flat)
    return made.to(like.dtype)


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
