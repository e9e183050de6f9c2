"""partial_rotary_heads in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def partial_rotary_heads(
    q: torch.Tensor, k_pe: torch.Tensor, kv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    turned = cos.shape[-1]
    plain = q.shape[-1] - turned
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)

    def rotated(x: torch.Tensor) -> torch.Tensor:
        x = torch.cat((x[..., 0::2], x[..., 1::2]), -1)
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    k = torch.cat((kv[..., :plain], rotated(k_pe.unsqueeze(-2)).expand_as(q[..., plain:])), -1)
    v = torch.nn.functional.pad(kv[..., plain:], (0, q.shape[-1] - kv.shape[-1] + plain))
    return torch.cat((q[..., :plain], rotated(q[..., plain:])), -1), k, v
