"""linear_rope in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def linear_rope(
    x: torch.Tensor, weight: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, heads: int,
    style: str = "neox", *, bias: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    y = torch.nn.functional.linear(x, weight, bias)
    head_dim = cos.shape[-1]
    turned = heads * head_dim
    z = y[..., :turned].unflatten(-1, (heads, head_dim))
    cos, sin = cos[:, None].to(y.dtype), sin[:, None].to(y.dtype)
    if style == "neox":
        low, high = z.chunk(2, -1)
        z = z * cos + torch.cat((-high, low), -1) * sin
    else:
        half = head_dim // 2
        low, high = z[..., 0::2], z[..., 1::2]
        first = low * cos[..., :half] - high * sin[..., :half]
        z = torch.stack((first, high * cos[..., half:] + low * sin[..., half:]), -1).flatten(-2)
    return torch.cat((z.flatten(-2), y[..., turned:]), -1)
