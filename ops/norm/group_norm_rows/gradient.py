"""The gradient of group_norm_rows: group_norm_backward; where torch is to differentiate it again, a
formula in torch's own operators, in f32. Both recompute the statistics.

Read next: group_norm_rows.py (AUTOGRAD), ../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .norm_gradient import (  # ops/norm/gradient.py
    affine,
    by_operator,
    normalise,
    of_phases,
    silu_slope,
    through_norm,
    to_phases,
)

_Tensor = torch.Tensor | None


def group_norm_rows(
    x: torch.Tensor, weight: _Tensor, bias: _Tensor, groups: int, inner: int, eps: float,
    activation: str, dy: torch.Tensor,
) -> tuple[_Tensor, ...]:  # fmt: skip
    """Gradients of x, weight and bias."""
    if torch.is_grad_enabled():
        return formula(x, weight, bias, inner, eps, activation, dy)
    return by_operator(
        torch.ops.dlblas.group_norm_backward, dy, (x, weight, bias), groups, inner, eps, activation
    )


def formula(
    x: torch.Tensor, weight: _Tensor, bias: _Tensor, inner: int, eps: float, activation: str,
    dy: torch.Tensor,
) -> tuple[_Tensor, ...]:  # fmt: skip
    width = x.shape[-1]

    def of_columns(vector: torch.Tensor) -> torch.Tensor:
        return of_phases(vector, x).repeat_interleave(inner, -1)[..., :width]

    def of_channels(columns: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        channels = like.shape[-1]  # the last one may be short
        whole = torch.nn.functional.pad(columns, (0, channels * inner - width))
        return to_phases(whole.unflatten(-1, (channels, inner)).sum(-1), like)

    n, scale = normalise(x.float(), eps)
    columns = [None if v is None else of_columns(v) for v in (weight, bias)]
    g = dy.float()
    if activation == "silu":
        g = g * silu_slope(affine(n, *columns))
    dweight = None if weight is None else of_channels(g * n, weight)
    dbias = None if bias is None else of_channels(g, bias)
    return through_norm(affine(g, columns[0], None), n, scale).to(x.dtype), dweight, dbias


GRADIENTS: dict[str, Any] = {"group_norm_rows": group_norm_rows}
