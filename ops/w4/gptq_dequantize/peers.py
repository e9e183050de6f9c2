"""gptq_dequantize in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def gptq_dequantize(
    qweight: torch.Tensor,
    scales: torch.Tensor,
    qzeros: torch.Tensor | None = None,
    group: int = 128,
    zeros_minus_one: bool = True,
) -> torch.Tensor:
    shifts = torch.arange(0, 32, 4, device=qweight.device)
    groups, columns = scales.shape
    q = (qweight[:, None] >> shifts[:, None] & 15).view(groups, group, columns)
    zero = 8
    if qzeros is not None:
        stored = (qzeros[..., None] >> shifts & 15).flatten(1)[:, None, :columns]
        zero = stored + int(zeros_minus_one)
    return ((q - zero) * scales[:, None]).view(-1, columns)
