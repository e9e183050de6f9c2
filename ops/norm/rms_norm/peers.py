"""rms_norm in torch, eager and compiled: the baseline of the benchmarks on a CPU."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


SECTIONS = ("gpu_norm", "gpu_norm_long")  # of the benchmarks on a GPU, with more peers
