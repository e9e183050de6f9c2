"""mm_w4a16_awq in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def mm_w4a16_awq(
    x: torch.Tensor,
    qweight: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None = None,
    group: int = 128,
) -> torch.Tensor:
    shifts = torch.tensor([0, 16, 4, 20, 8, 24, 12, 28], device=x.device)
    columns, groups = scales.shape[1], scales.shape[0]
    q = (qweight[..., None] >> shifts & 15).view(groups, group, columns)
    zero = 8 if zeros is None else (zeros[..., None] >> shifts & 15).view(groups, 1, columns)
    return x @ ((q - zero) * scales[:, None]).view(-1, columns)
