"""FlashAttention-3's forward as a rival (`fa3-fwd` on PyPI), if the package is on PYTHONPATH;
otherwise a call says why not.

Used by: gpu_attention.py. Read next: deep_gemm.py, peers.py.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from dlblas.bench.gpu_timing import Run

NAME = "flash3"


@functools.cache
def _package() -> Any:
    # Imported at the first call, not with this module: a package that cannot be loaded is a rival
    # without times, with its reason in the row.
    return importlib.import_module("fa3_fwd_interface")


def _output(made: Any) -> torch.Tensor:
    out: torch.Tensor = made[0] if isinstance(made, tuple) else made
    return out


def dense(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, **more: Any
) -> dict[str, Run]:
    """q[i] [B, S, H, D], k[i], v[i] [B, S, Hkv, D or Dv]; ``more``: descales of f8, softcap."""

    def run(i: int) -> torch.Tensor:
        return _output(_package().flash_attn_func(q[i], k[i], v[i], causal=causal, **more))

    return {NAME: run}


def varlen(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ends: torch.Tensor, most: int
) -> dict[str, Run]:
    """q[i], k[i], v[i] [T, H, D], causal; ``ends``: offsets of the sequences, at most ``most``
    positions each."""

    def run(i: int) -> torch.Tensor:
        function = _package().flash_attn_varlen_func
        return _output(function(q[i], k[i], v[i], ends, ends, most, most, causal=True))

    return {NAME: run}


def decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, Run]:
    """q[i] [B, H, D], k[i], v[i] [B, L, Hkv, D]: one query over each contiguous cache."""

    def run(i: int) -> torch.Tensor:
        function = _package().flash_attn_with_kvcache
        made = function(q[i].unsqueeze(1), k[i], v[i], num_splits=0)
        return _output(made).squeeze(1)

    return {NAME: run}
