"""silu_and_mul_quant_group to f8e4m3 in torch, eager and compiled: the benchmarks' baseline."""

from __future__ import annotations

import torch


def silu_and_mul_quant_group(
    x: torch.Tensor, group: int = 128
) -> tuple[torch.Tensor, torch.Tensor]:
    gate, up = x.float().chunk(2, -1)
    y = torch.nn.functional.silu(gate) * up
    groups = y.view(*y.shape[:-1], -1, group)
    scale = groups.abs().amax(-1, keepdim=True) / 448
    return (groups / scale).to(torch.float8_e4m3fn).flatten(-2), scale.squeeze(-1)
