"""moe_unpermute in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def moe_unpermute(
    rows: torch.Tensor, inverse: torch.Tensor, topk_weights: torch.Tensor
) -> torch.Tensor:
    return (rows[inverse].float() * topk_weights.float()[..., None]).sum(1).to(rows.dtype)
