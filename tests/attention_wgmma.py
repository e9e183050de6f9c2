"""Attention by ``cuda_wgmma`` alone, in tests on a GPU. Used by: test_flash_attention.py,
test_paged_attention.py."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import dlblas
import pytest
import torch


@contextlib.contextmanager
def on_wgmma(op: str, *config: str) -> Iterator[None]:
    """Pins cuda_wgmma; skips where there is no Hopper."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("WGMMA needs Hopper")
    with dlblas.pinned(op, "cuda_wgmma", *config):
        yield
