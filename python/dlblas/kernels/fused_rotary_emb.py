"""``dlblas.kernels.fused_rotary_emb``: rotation by angles computed on the fly.

A thin wrapper of ``dlblas.fused_rotary_emb``. Read next:
../../../ops/rope/fused_rotary_emb/fused_rotary_emb.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._arguments import hinted

__all__ = ["fused_rotary_emb"]

_rotate = import_module("..ops.rope_api", __package__).rotate_by_frequencies


@hinted
def fused_rotary_emb(
    q: Any,
    k: Any,
    position_ids: Any,
    inv_freq: Any,
    scaling_factor: float = 1.0,
    out_q: Any = None,
    out_k: Any = None,
) -> tuple[Any, Any]:
    """Rotates pairs ``(i, i + D/2)`` of heads: ``(out_q, out_k)``.

    Angles are ``position_ids / scaling_factor · inv_freq``.

    q ``[B, S, H, D]``, k ``[B, S, Hkv, D]``, position_ids ``[B, S]`` or ``[1, S]`` for all of B,
    inv_freq ``[D/2]``. Results are written to out_q and out_k if given: q and k themselves for an
    in-place call. Errors, dtypes and numerics are those of ``dlblas.fused_rotary_emb``.
    """
    rotated: tuple[Any, Any] = _rotate(q, k, position_ids, inv_freq, scaling_factor, out_q, out_k)
    return rotated
