"""moe_align in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def moe_align(
    topk_ids: torch.Tensor, num_experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    flat = topk_ids.reshape(-1).long()
    flat = torch.where((flat >= 0) & (flat < num_experts), flat, num_experts)
    extent = flat.numel() + num_experts * block
    experts, order = flat.sort(stable=True)
    counts = torch.zeros(num_experts + 1, dtype=torch.long, device=flat.device)
    counts = counts.scatter_add(0, flat, torch.ones_like(flat))
    padded = (counts[:-1] + block - 1) // block * block
    ends = padded.cumsum(0)
    shift = torch.nn.functional.pad(ends - padded - (counts.cumsum(0)[:-1] - counts[:-1]), (0, 1))
    place = torch.arange(flat.numel(), device=flat.device) + shift[experts]
    place = torch.where(experts < num_experts, place, extent)
    sorted_ids = torch.full((extent + 1,), flat.numel(), dtype=torch.int32, device=flat.device)
    sorted_ids = sorted_ids.scatter(0, place, order.int())[:extent]
    begins = torch.arange(0, extent, block, device=flat.device)
    owners = torch.searchsorted(ends, begins, right=True).int()
    return sorted_ids, torch.where(begins < ends[-1], owners, -1).int(), ends[-1:].int()
