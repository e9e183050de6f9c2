"""apply_rotary_pos_emb, "neox", in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    def rotated(x: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, -1)
        turned = torch.cat((-high, low), -1)
        return x * cos.unsqueeze(-2) + turned * sin.unsqueeze(-2)

    return rotated(q), rotated(k)
