"""rope, "neox", in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def rope(
    q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor, cos_sin_cache: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = (part.unsqueeze(-2) for part in cos_sin_cache[positions].chunk(2, -1))
    pairs = cos.shape[-1]

    def rotated(x: torch.Tensor) -> torch.Tensor:
        low, high, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
        return torch.cat((low * cos - high * sin, high * cos + low * sin, rest), -1)

    return rotated(q), rotated(k)
