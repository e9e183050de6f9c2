"""add_rms_norm_quant_static in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def add_rms_norm_quant_static(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor,
    scale: torch.Tensor,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, ...]:
    h = x + residual
    y = torch.nn.functional.rms_norm(h.float(), h.shape[-1:], weight.float(), eps)
    q = (y / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return q, h
