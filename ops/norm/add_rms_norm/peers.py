"""add_rms_norm in torch, eager and compiled: the baseline of the benchmarks on a CPU."""

from __future__ import annotations

import torch


def add_rms_norm(
    x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return torch.nn.functional.rms_norm(total, x.shape[-1:], weight, eps), total


SECTIONS = ("gpu_norm", "gpu_norm_long")  # of the benchmarks on a GPU, with more peers
