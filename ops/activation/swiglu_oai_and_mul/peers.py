"""swiglu_oai_and_mul in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def swiglu_oai_and_mul(
    x: torch.Tensor, alpha: float = 1.702, limit: float = 7.0, interleaved: bool = True
) -> torch.Tensor:
    gate, up = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return (up + 1) * gate * torch.sigmoid(alpha * gate)
