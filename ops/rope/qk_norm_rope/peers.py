"""qk_norm_rope, "neox", in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def qk_norm_rope(
    q: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    key_cache: torch.Tensor | None = None,
    slots: torch.Tensor | None = None,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = (part.unsqueeze(-2) for part in cos_sin_cache[positions].chunk(2, -1))
    pairs = cos.shape[-1]

    def turned(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        n = torch.nn.functional.rms_norm(x, x.shape[-1:], weight.to(x.dtype), eps)
        low, high, rest = n[..., :pairs], n[..., pairs : 2 * pairs], n[..., 2 * pairs :]
        return torch.cat((low * cos - high * sin, high * cos + low * sin, rest), -1)

    turned_k = turned(k, k_weight)
    if key_cache is not None and slots is not None:
        key_cache.flatten(0, 1)[slots] = turned_k.to(key_cache.dtype)
    return turned(q, q_weight), turned_k
