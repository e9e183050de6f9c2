"""The gradient of group_norm_rows in torch's own operators, in f32; recomputes the statistics.

Read next: ../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .norm_gradient import affine, normalise, silu_slope, through_norm  # ops/norm/gradient.py


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
    width = x.shape[-1]

    def of_columns(vector: torch.Tensor) -> torch.Tensor:
        return vector.float().repeat_interleave(inner, -1)[..., :width]

    def of_channels(columns: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        channels = like.shape[-1]  # the last one may be short
        whole = torch.nn.functional.pad(columns, (0, channels * inner - width))
        return whole.unflatten(-1, (channels, inner)).sum(-1).to(like.dtype)

    n, scale = normalise(x.float(), eps)
    columns = [None if v is None else of_columns(v) for v in (weight, bias)]
    g = dy.float()
    if activation == "silu":
        g = g * silu_slope(affine(n, *columns))
    dweight = None if weight is None else of_channels(g * n, weight)
    dbias = None if bias is None else of_channels(g, bias)
    return through_norm(affine(g, columns[0], None), n, scale).to(x.dtype), dweight, dbias


GRADIENTS: dict[str, Any] = {"group_norm_rows": group_norm_rows}
