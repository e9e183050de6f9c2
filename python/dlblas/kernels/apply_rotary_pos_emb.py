"""``dlblas.kernels.apply_rotary_pos_emb``: rotation of query and key heads by tables.

A thin call of ``dlblas.apply_rotary_pos_emb``. Read next:
../../../ops/rope/apply_rotary_pos_emb/apply_rotary_pos_emb.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._arguments import hinted
from .._functions import FUNCTIONS

__all__ = ["apply_rotary_pos_emb"]

_OP = "apply_rotary_pos_emb"
_apply = FUNCTIONS[_OP].call
_table_of = import_module("..ops.rope_api", __package__).table_of


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
    """Rotates heads: ``(q_embed, k_embed)``.

    ``out_l = q_l · cos_l − q_h · sin_l``, ``out_h = q_h · cos_h + q_l · sin_h``.

    q ``[*T, H, D]``, k ``[*T, Hkv, D]``, cos and sin ``[S, D]``, ``[B, S, D]`` or with a dimension
    of 1 before D. Pairs are ``(i, i + D/2)``; ``style="interleaved"``: ``(2i, 2i + 1)``;
    ``"interleaved_to_half"``: these of q and k, those of the results. Results go into q_embed and
    k_embed where both are given: q and k themselves for a call in place. Errors and dtypes are
    those of ``dlblas.apply_rotary_pos_emb``. Source: Su et al., RoFormer, 2021.
    """
    tokens = tuple(q.shape[:-2])
    tables = [_table_of(table, name, tokens, _OP) for name, table in (("cos", cos), ("sin", sin))]
    if q_embed is None or k_embed is None:
        made = _apply(q, k, *tables, style=style)
        return _placed(made[0], q_embed), _placed(made[1], k_embed)
    _apply(q, k, *tables, style=style, out=(q_embed, k_embed))
    return q_embed, k_embed


def _placed(made: Any, out: Any) -> Any:
    """Where one of two results alone has a place."""
    if out is None:
        return made
    out[...] = made
    return out
