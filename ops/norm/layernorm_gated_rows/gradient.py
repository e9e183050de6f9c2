"""The gradient of layernorm_gated_rows in torch's own operators, in f32: statistics are made again.

Read next: ../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

from typing import Any

import torch


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
    wide, g = x.float(), dy.float()
    sigmoid = torch.ones(()) if z is None else z.float().sigmoid()
    gate = None if z is None else z.float() * sigmoid
    v = wide if gate is None or norm_before_gate else wide * gate
    centred = v if is_rms_norm else v - v.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    n = centred * scale
    dgate = None
    if gate is not None and norm_before_gate:
        y = n if weight is None else n * weight.float()
        y = y if bias is None else y + bias.float()
        dgate, g = g * y, g * gate
    dweight = None if weight is None else (g * n).to(weight.dtype)
    dbias = None if bias is None else g.to(bias.dtype)
    g = g if weight is None else g * weight.float()
    dv = g - n * (g * n).mean(-1, keepdim=True)
    dv = scale * (dv if is_rms_norm else dv - g.mean(-1, keepdim=True))
    if gate is not None and not norm_before_gate:
        dgate, dv = dv * wide, dv * gate
    dz = None
    if z is not None and dgate is not None:
        dz = (dgate * sigmoid * (1 + z.float() * (1 - sigmoid))).to(z.dtype)
    return dv.to(x.dtype), dweight, dbias, dz


GRADIENTS: dict[str, Any] = {"layernorm_gated_rows": layernorm_gated_rows}
