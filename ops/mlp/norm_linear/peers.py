"""norm_linear in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def norm_linear(
    x: torch.Tensor, rms_w: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    return torch.nn.functional.linear(
        torch.nn.functional.rms_norm(x, (x.shape[-1],), rms_w, eps), weight
    )
