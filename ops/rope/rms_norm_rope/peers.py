"""rms_norm_rope in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def rms_norm_rope(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    eps: float = 1e-6,
) -> torch.Tensor:
    normed = torch.nn.functional.rms_norm(x, x.shape[-2:], weight.to(x.dtype), eps)
    low, high = normed.chunk(2, -1)
    half = low.shape[-1]
    c, s = cos[..., :half].unsqueeze(-2), sin[..., :half].unsqueeze(-2)
    return torch.cat((low * c - high * s, high * c + low * s), -1)
