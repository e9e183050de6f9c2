"""``dlblas.kernels.fused_rotary_and_fa``: rotation of heads, then attention without a mask.

Read next: ../../../ops/attention/api.py.
"""

from __future__ import annotations

from typing import Any

from .._faces import fused_rotary_and_fa

__all__ = ["FusedRotaryAndFA"]


class FusedRotaryAndFA:
    """Called by ``apply``, as an autograd function is; gradients are the operators' own."""

    @staticmethod
    def apply(q: Any, k: Any, v: Any, cos: Any, sin: Any) -> Any:
        """``dlblas.fused_rotary_and_fa``: q ``[B, S, H, D]``, k ``[B, S, Hkv, D]``,
        v ``[B, S, Hkv, Dv]``, cos and sin ``[B, S, D]`` -> ``[B, S, H, Dv]``.

        q and k are not modified. Dtypes, numerics and errors are that function's.
        """
        return fused_rotary_and_fa(q, k, v, cos, sin)
