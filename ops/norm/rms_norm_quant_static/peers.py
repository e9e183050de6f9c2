"""rms_norm_quant_static in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def rms_norm_quant_static(
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    eps: float = 1e-6,
) -> torch.Tensor:
    y = torch.nn.functional.rms_norm(x.float(), x.shape[-1:], weight.float(), eps)
    q = (y / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return q
