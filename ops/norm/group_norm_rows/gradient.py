"""The gradient of group_norm_rows in torch's own operators, in f32: statistics are made again.

Read next: ../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

from typing import Any

import torch


def group_norm_rows(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    inner: int,
    eps: float,
    activation: str,
    dy: torch.Tensor,
) -> tuple[torch.Tensor | None, ...]:
    """Gradients of x, weight and bias."""

    def of_columns(vector: torch.Tensor) -> torch.Tensor:
        return vector.float().repeat_interleave(inner, -1)

    def of_channels(columns: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return columns.unflatten(-1, (like.shape[-1], inner)).sum(-1).to(like.dtype)

    wide, g = x.float(), dy.float()
    centred = wide - wide.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    n = centred * scale
    if activation == "silu":
        y = n if weight is None else n * of_columns(weight)
        y = y if bias is None else y + of_columns(bias)
        s = y.sigmoid()
        g = g * s * (1 + y * (1 - s))
    dweight = None if weight is None else of_channels(g * n, weight)
    dbias = None if bias is None else of_channels(g, bias)
    g = g if weight is None else g * of_columns(weight)
    dx = scale * (g - g.mean(-1, keepdim=True) - n * (g * n).mean(-1, keepdim=True))
    return dx.to(x.dtype), dweight, dbias


GRADIENTS: dict[str, Any] = {"group_norm_rows": group_norm_rows}
