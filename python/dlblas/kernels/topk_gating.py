"""``dlblas.kernels.topk_gating``: capacity gating under DLBlas's class name.

A thin wrapper of ``dlblas.topk_gating``. Read next: ../../../ops/moe/api.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._faces import topk_gating

__all__ = ["TopKGatingFunc"]


class TopKGatingFunc:
    """Called through ``apply``, like an autograd function; gradients are the operator's own."""

    @staticmethod
    @hinted
    def apply(
        logits: Any,
        k: int,
        capacity_factor: float = 1.0,
        min_capacity: int = 2,
        higher_precision: bool = False,
    ) -> tuple[Any, Any, Any, Any]:
        """Calls ``dlblas.topk_gating``; see there."""
        results: tuple[Any, Any, Any, Any] = topk_gating(
            logits, k, capacity_factor, min_capacity, higher_precision
        )
        return results
