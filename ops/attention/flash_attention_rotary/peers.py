"""flash_attention_rotary in torch: what is timed beside it, eager and compiled."""

from __future__ import annotations

import torch


def flash_attention_rotary(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor,
    causal: bool = False,
) -> torch.Tensor:  # fmt: skip
    def rotated(x: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, -1)
        turned = torch.cat((-high, low), -1)
        return (x * cos.unsqueeze(-2) + turned * sin.unsqueeze(-2)).to(x.dtype)

    heads = (x.transpose(1, 2) for x in (rotated(q), rotated(k), v))
    o = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=causal, enable_gqa=True)
    return o.transpose(1, 2)
