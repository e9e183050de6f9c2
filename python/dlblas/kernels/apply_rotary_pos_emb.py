"""``dlblas.kernels.apply_rotary_pos_emb``: rotation of query and key heads by tables.

A thin wrapper of ``dlblas.apply_rotary_pos_emb``. Read next:
../../../ops/rope/apply_rotary_pos_emb/apply_rotary_pos_emb.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._arguments import hinted

__all__ = ["apply_rotary_pos_emb"]

_rotate = import_module("..ops.rope_api", __package__).rotate_by_tables


@hinted
def apply_rotary_pos_emb(
    q: Any,
    k: Any,
    cos: Any,
    sin: Any,
    q_embed: Any = None,
    k_embed: Any = None,
    *,
    style: str = "neox",
) -> tuple[Any, Any]:
    """Rotates query and key heads by tables: ``(q_embed, k_embed)``.

    ``out_l = q_l · cos_l − q_h · sin_l``, ``out_h = q_h · cos_h + q_l · sin_h``.

    q ``[*T, H, D]``, k ``[*T, Hkv, D]``, cos and sin ``[S, D]`` or ``[B, S, D]``, optionally with a
    dimension of 1 before D, or with D/2 columns. Pairs are ``(i, i + D/2)``; with
    ``style="interleaved"`` ``(2i, 2i + 1)``; with ``"interleaved_to_half"`` ``(2i, 2i + 1)`` in q
    and k, ``(i, i + D/2)`` in the results. Results are written to q_embed and k_embed if given: q
    and k themselves for an in-place call. Errors and dtypes are those of
    ``dlblas.apply_rotary_pos_emb``. Source: Su et al., RoFormer, 2021.
    """
    rotated: tuple[Any, Any] = _rotate(q, k, cos, sin, q_embed, k_embed, style=style)
    return rotated
