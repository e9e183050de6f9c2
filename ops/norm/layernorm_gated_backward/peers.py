"""layernorm_gated_backward in torch, eager and compiled: the baseline of the benchmarks, as in
Mamba-2 (an RMS norm after the gate)."""

from __future__ import annotations

import torch


def layernorm_gated_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, z: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, ...]:
    g, wide, s = dy.float(), x.float(), z.float().sigmoid()
    gate = z * s
    v = (wide * gate).unflatten(0, (-1, weight.shape[0]))
    rstd = (v.square().mean(-1, keepdim=True) + eps).rsqrt()
    n, g = v * rstd, g.unflatten(0, (-1, weight.shape[0]))
    dweight = (g * n).sum(0)
    g = g * weight
    dv = (rstd * (g - n * (g * n).mean(-1, keepdim=True))).flatten(0, 1)
    dz = dv * wide * s * (1 + z * (1 - s))
    return (dv * gate).to(x.dtype), dz.to(x.dtype), dweight.to(weight.dtype)
