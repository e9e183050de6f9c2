"""Attention by ``cuda_wgmma`` alone, in tests on a GPU. Used by: test_flash_attention.py,
test_paged_attention.py."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import dlblas
import dlblas.errors
import pytest
import torch


@contextlib.contextmanager
def on_wgmma(op: str, *config: str) -> Iterator[None]:
    """Pins cuda_wgmma; skips where it serves no such heads or bias (kOtherHeads in
    ops/attention/cuda/attention_wgmma_host.hpp)."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("WGMMA needs Hopper")
    try:
        with dlblas.pinned(op, "cuda_wgmma", *config):
            yield
    except dlblas.errors.Error as error:
        if "expected 64, 128 or 256" in str(error) or "is given" in str(error):
            pytest.skip(str(error))
        raise
