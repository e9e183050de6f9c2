"""mm_w4a16_gptq in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def mm_w4a16_gptq(
    x: torch.Tensor,
    qweight: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None = None,
    group: int = 128,
    zeros_minus_one: bool = True,
) -> torch.Tensor:
    shifts = torch.arange(0, 32, 4, device=x.device)
    columns, groups = scales.shape[1], scales.shape[0]
    q = (qweight[:, None] >> shifts[:, None] & 15).view(groups, group, columns)
    zero = 8
    if zeros is not None:
        stored = (zeros[..., None] >> shifts & 15).flatten(1)[:, None, :columns]
        zero = stored + int(zeros_minus_one)
    return x @ ((q - zero) * scales[:, None]).view(-1, columns)
