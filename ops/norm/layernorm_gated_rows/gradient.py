"""The gradient of layernorm_gated_rows in torch's own operators, in f32; recomputes the statistics.

Read next: ../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .norm_gradient import affine, normalise, silu_slope, through_norm  # ops/norm/gradient.py


def layernorm_gated_rows(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    z: torch.Tensor | None,
    eps: float,
    norm_before_gate: bool,
    is_rms_norm: bool,
    dy: torch.Tensor,
) -> tuple[torch.Tensor | None, ...]:
    """Gradients of x, weight, bias and z."""
    wide, g, centres = x.float(), dy.float(), not is_rms_norm
    gate = None if z is None else torch.nn.functional.silu(z.float())
    behind, before = (gate, None) if norm_before_gate else (None, gate)
    n, scale = normalise(wide if before is None else wide * before, eps, centres)
    dgate = None
    if behind is not None:
        dgate, g = g * affine(n, weight, bias), g * behind
    dweight = None if weight is None else (g * n).to(weight.dtype)
    dbias = None if bias is None else g.to(bias.dtype)
    dv = through_norm(affine(g, weight, None), n, scale, centres)
    if before is not None:
        dgate, dv = dv * wide, dv * before
    dz = None if z is None or dgate is None else (dgate * silu_slope(z.float())).to(z.dtype)
    return dv.to(x.dtype), dweight, dbias, dz


GRADIENTS: dict[str, Any] = {"layernorm_gated_rows": layernorm_gated_rows}
