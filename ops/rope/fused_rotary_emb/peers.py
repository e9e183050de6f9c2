"""fused_rotary_emb, "neox", in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def fused_rotary_emb(
    q: torch.Tensor,
    k: torch.Tensor,
    position_ids: torch.Tensor,
    inv_freq: torch.Tensor,
    scaling_factor: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    angles = (position_ids.float() / scaling_factor)[..., None, None] * inv_freq.float()
    cos, sin = angles.cos(), angles.sin()

    def rotated(x: torch.Tensor) -> torch.Tensor:
        low, high = x.float().chunk(2, -1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(x.dtype)

    return rotated(q), rotated(k)
