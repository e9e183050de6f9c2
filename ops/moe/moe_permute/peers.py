"""moe_permute in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def moe_permute(
    x: torch.Tensor, topk_ids: torch.Tensor, num_experts: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    flat = topk_ids.reshape(-1).long()
    experts, order = flat.sort(stable=True)
    begins = torch.arange(num_experts + 1, device=flat.device)
    offsets = torch.searchsorted(experts, begins).int()
    return x[order // topk_ids.shape[1]], offsets, order.argsort().int().view(topk_ids.shape)
