"""scale_rows in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def scale_rows(
    x: torch.Tensor,
    scale: torch.Tensor,
    weight: torch.Tensor | None = None,
    weight_offset: float = 0.0,
    cast_before_weight: bool = False,
) -> torch.Tensor:
    y = x.float() * scale
    if cast_before_weight:
        y = y.to(x.dtype)
    if weight is not None:
        y = y * (weight.float() + weight_offset if weight_offset else weight)
    return y.to(x.dtype)
