"""linear_residual in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch

_Tensor = torch.Tensor | None


def linear_residual(
    x: torch.Tensor, weight: torch.Tensor, activation: str = "", *, bias: _Tensor = None,
    residual: _Tensor = None, row_scale: _Tensor = None, column_scale: _Tensor = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:  # fmt: skip
    scaled = row_scale is not None or column_scale is not None
    y = torch.nn.functional.linear(x, weight, None if scaled else bias)
    for factor in (row_scale, column_scale):
        if factor is not None:
            y = y * factor
    if scaled and bias is not None:
        y = y + bias
    if activation:
        y = getattr(torch.nn.functional, activation)(y)
    if residual is not None:
        y = y + residual
    return y.to(out_dtype or x.dtype)
