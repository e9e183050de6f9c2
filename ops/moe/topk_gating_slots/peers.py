"""topk_gating_slots in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def topk_gating_slots(logits: torch.Tensor, k: int, capacity: int) -> tuple[torch.Tensor, ...]:
    tokens, experts = logits.shape
    gates = torch.softmax(logits.float(), 1)
    chosen = gates.topk(k, 1).indices.t()  # [k, T]
    masks = torch.nn.functional.one_hot(chosen, experts)
    flat = masks.reshape(k * tokens, experts)
    place = ((flat.cumsum(0) - 1) * flat).sum(1).view(k, tokens)
    first = masks[0].sum(0)
    l_aux = (gates.mean(0) * (first / tokens)).sum() * experts
    stays = place < capacity
    own = gates.gather(1, chosen.t()).t() * stays
    weights = own / own.sum(0).clamp(min=torch.finfo(logits.dtype).eps)
    slots = torch.where(stays, chosen * capacity + place, 0)
    select = torch.zeros(experts * capacity + 1, dtype=torch.long, device=logits.device)
    token = torch.arange(tokens, device=logits.device).expand(k, tokens)
    select = select.scatter(0, torch.where(stays, slots, experts * capacity).reshape(-1),
                            token.reshape(-1))  # fmt: skip
    return (
        l_aux.to(logits.dtype), slots.reshape(-1).int(), weights.reshape(-1).to(logits.dtype),
        select[:-1], torch.where(stays, chosen, -1).reshape(-1).int(), first.int(),
    )  # fmt: skip
