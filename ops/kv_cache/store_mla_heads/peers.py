"""store_mla_heads in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def store_mla_heads(
    ckv: torch.Tensor,
    kpe: torch.Tensor,
    ckv_cache: torch.Tensor,
    kpe_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    ckv_cache.view(-1, *ckv.shape[1:])[slot_mapping] = ckv
    kpe_cache.view(-1, *kpe.shape[1:])[slot_mapping] = kpe
