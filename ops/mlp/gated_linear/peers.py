"""gated_linear in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def gated_linear(
    x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor, activation: str = "silu"
) -> torch.Tensor:
    gate = torch.nn.functional.linear(x, w_gate)
    if activation == "gelu_tanh":
        gate = torch.nn.functional.gelu(gate, approximate="tanh")
    else:
        gate = getattr(torch.nn.functional, activation)(gate)
    return gate * torch.nn.functional.linear(x, w_up)
