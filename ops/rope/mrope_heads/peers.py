"""mrope_heads, "neox", in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def mrope_heads(
    q: torch.Tensor, k: torch.Tensor, time: torch.Tensor, height: torch.Tensor,
    width: torch.Tensor, cos_sin_cache: torch.Tensor, first: int, second: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    rows = [cos_sin_cache[p].chunk(2, -1) for p in (time, height, width)]
    pairs = rows[0][0].shape[-1]
    ends = ((0, first), (first, second), (second, pairs))
    cos, sin = (
        torch.cat([rows[i][part][:, a:b] for i, (a, b) in enumerate(ends)], -1).unsqueeze(-2)
        for part in (0, 1)
    )

    def rotated(x: torch.Tensor) -> torch.Tensor:
        low, high, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
        return torch.cat((low * cos - high * sin, high * cos + low * sin, rest), -1)

    return rotated(q), rotated(k)
