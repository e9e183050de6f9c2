"""silu_and_mul_quant_static to f8e4m3 in torch, eager and compiled: the benchmarks' baseline."""

from __future__ import annotations

import torch


def silu_and_mul_quant_static(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    gate, up = x.float().chunk(2, -1)
    y = torch.nn.functional.silu(gate) * up
    return (y / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
