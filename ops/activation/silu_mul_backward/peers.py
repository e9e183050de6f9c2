"""silu_mul_backward in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def silu_mul_backward(
    dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    dgate: torch.Tensor = torch.ops.aten.silu_backward(dy * up, gate)
    return dgate, dy * torch.nn.functional.silu(gate)
