"""dequantize_group in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def dequantize_group(
    q: torch.Tensor, scale: torch.Tensor, group: int = 128, out_dtype: str = "bf16"
) -> torch.Tensor:
    of = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[out_dtype]
    return (q.float().view(*scale.shape, group) * scale.unsqueeze(-1)).view(q.shape).to(of)
