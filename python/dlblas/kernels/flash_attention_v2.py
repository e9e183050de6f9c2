"""``dlblas.kernels.flash_attention_v2``: attention without a mask, as DLBlas calls it.

Read next: ../../../ops/attention/api.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._faces import flash_attention_v2

__all__ = ["FlashAttentionV2"]


class FlashAttentionV2:
    """Called through ``apply``, like an autograd function; gradients are the operator's own."""

    @staticmethod
    @hinted
    def apply(q: Any, k: Any, v: Any) -> Any:
        """``softmax(q · kᵀ / √D) · v``: q ``[B, S, H, D]``, k ``[B, L, Hkv, D]``,
        v ``[B, L, Hkv, Dv]`` -> ``[B, S, H, Dv]``.

        Dtypes, numerics and errors are ``dlblas.flash_attention``'s.
        """
        return flash_attention_v2(q, k, v)
