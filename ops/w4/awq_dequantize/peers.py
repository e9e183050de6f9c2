"""awq_dequantize in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def awq_dequantize(
    qweight: torch.Tensor, scales: torch.Tensor, qzeros: torch.Tensor | None = None
) -> torch.Tensor:
    shifts = torch.tensor([0, 16, 4, 20, 8, 24, 12, 28], device=qweight.device)
    q = (qweight[..., None] >> shifts & 15).flatten(1)
    zero = 8 if qzeros is None else (qzeros[..., None] >> shifts & 15).flatten(1)[:, None]
    groups, columns = scales.shape
    return ((q.view(groups, -1, columns) - zero) * scales[:, None]).view(-1, columns)
