"""add_rms_norm_quant_group in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def add_rms_norm_quant_group(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor,
    eps: float = 1e-6,
    group: int = 128,
) -> tuple[torch.Tensor, ...]:
    h = x + residual
    y = torch.nn.functional.rms_norm(h.float(), h.shape[-1:], weight.float(), eps)
    groups = y.view(*y.shape[:-1], -1, group)
    scale = groups.abs().amax(-1, keepdim=True) / 448
    q = (groups / scale).to(torch.float8_e4m3fn).flatten(-2)
    return q, scale.squeeze(-1), h
