"""norm_gated_linear in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def norm_gated_linear(
    x: torch.Tensor, rms_w: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor,
    eps: float = 1e-6, activation: str = "silu",
) -> torch.Tensor:  # fmt: skip
    normed = torch.nn.functional.rms_norm(x, (x.shape[-1],), rms_w, eps)
    gate = torch.nn.functional.linear(normed, w_gate)
    if activation == "gelu_tanh":
        gate = torch.nn.functional.gelu(gate, approximate="tanh")
    else:
        gate = getattr(torch.nn.functional, activation)(gate)
    return gate * torch.nn.functional.linear(normed, w_up)
