"""The gradient of layernorm_gated_rows: layernorm_gated_backward; where torch is to differentiate
it again, a formula in torch's own operators, in f32. Both recompute the statistics.

Read next: layernorm_gated_rows.py (AUTOGRAD), ../../../python/dlblas/torch/_autograd.py.
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


def layernorm_gated_rows(
    x: torch.Tensor, weight: _Tensor, bias: _Tensor, z: _Tensor, groups: int, eps: float,
    norm_before_gate: bool, is_rms_norm: bool, dy: torch.Tensor,
) -> tuple[_Tensor, ...]:  # fmt: skip
    """Gradients of x, weight, bias and z."""
    if torch.is_grad_enabled():
        return formula(x, weight, bias, z, eps, norm_before_gate, is_rms_norm, dy)
    dx, dz, dweight, dbias = by_operator(
        torch.ops.dlblas.layernorm_gated_backward, dy, (x, weight, bias, z), groups, eps,
        norm_before_gate, is_rms_norm,
    )  # fmt: skip
    return dx, dweight, dbias, dz


def formula(
    x: torch.Tensor, weight: _Tensor, bias: _Tensor, z: _Tensor, eps: float,
    norm_before_gate: bool, is_rms_norm: bool, dy: torch.Tensor,
) -> tuple[_Tensor, ...]:  # fmt: skip
    wide, g, centres = x.float(), dy.float(), not is_rms_norm
    columns = [None if v is None else of_phases(v, x) for v in (weight, bias)]
    gate = None if z is None else torch.nn.functional.silu(z.float())
    behind, before = (gate, None) if norm_before_gate else (None, gate)
    n, scale = normalise(wide if before is None else wide * before, eps, centres)
    dgate = None
    if behind is not None:
        dgate, g = g * affine(n, *columns), g * behind
    dweight = None if weight is None else to_phases(g * n, weight)
    dbias = None if bias is None else to_phases(g, bias)
    dv = through_norm(affine(g, columns[0], None), n, scale, centres)
    if before is not None:
        dgate, dv = dv * wide, dv * before
    dz = None if z is None or dgate is None else (dgate * silu_slope(z.float())).to(z.dtype)
    return dv.to(x.dtype), dweight, dbias, dz


GRADIENTS: dict[str, Any] = {"layernorm_gated_rows": layernorm_gated_rows}
