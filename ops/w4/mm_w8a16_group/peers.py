"""mm_w8a16_group in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def mm_w8a16_group(
    x: torch.Tensor,
    qweight: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    group: int = 128,
) -> torch.Tensor:
    depth = qweight.shape[1]
    if depth <= group:
        y = torch.nn.functional.linear(x, qweight.to(x.dtype)) * scale[:, 0]
        return (y if bias is None else y + bias).to(x.dtype)
    each = scale.repeat_interleave(group, 1)[:, :depth]
    weight = (qweight * each).to(x.dtype)
    return torch.nn.functional.linear(x, weight, None if bias is None else bias.to(x.dtype))
