"""layernorm_gated_rows in torch, eager and compiled: the baseline of the benchmarks, as in Mamba-2
(an RMS norm after the gate)."""

from __future__ import annotations

import torch


def layernorm_gated_rows(x: torch.Tensor, weight: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    v = x * torch.nn.functional.silu(z)
    n = torch.nn.functional.rms_norm(v, v.shape[-1:], eps=1e-6).unflatten(0, (-1, weight.shape[0]))
    return (n * weight).flatten(0, 1)
