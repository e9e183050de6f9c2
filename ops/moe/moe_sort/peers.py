"""moe_sort in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def moe_sort(
    topk_ids: torch.Tensor, num_experts: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    flat = topk_ids.reshape(-1).long()
    flat = torch.where((flat >= 0) & (flat < num_experts), flat, num_experts)
    experts, order = flat.sort(stable=True)
    begins = torch.arange(num_experts + 1, device=flat.device)
    offsets = torch.searchsorted(experts, begins).int()
    rows = torch.where(experts < num_experts, order // topk_ids.shape[1], -1).int()
    inverse = torch.where(flat < num_experts, order.argsort(), -1).int()
    return rows, offsets, inverse.view(topk_ids.shape)
