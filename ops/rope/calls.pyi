"""Operators of this family whose functions take more than their schemas say, as editors and type
checkers see them in place of _ops.pyi's: see api.py.
"""

from typing import Any, Literal, TypeAlias, TypeVar

_A = TypeVar("_A")
_Array: TypeAlias = Any

def apply_rotary_pos_emb(
    q: _A,
    k: _Array,
    cos: _Array,
    sin: _Array,
    q_embed: _A | None = None,
    k_embed: _A | None = None,
    *,
    style: Literal["neox", "interleaved", "interleaved_to_half"] = "neox",
    cast_before_sum: bool = False,
    out: tuple[_A, _A] | None = None,
    stream: int | None = None,
) -> tuple[_A, _A]:
    """out_l = x_l · cos_l − x_h · sin_l; out_h = x_h · cos_h + x_l · sin_h; tables of all tokens,
    or [S, D] of a batch, [T, 1, D], [·, D/2]."""

def fused_rotary_emb(
    q: _A,
    k: _Array,
    position_ids: _Array,
    inv_freq: _Array,
    scaling_factor: float = 1.0,
    out_q: _A | None = None,
    out_k: _A | None = None,
    *,
    style: Literal["neox", "interleaved", "interleaved_to_half"] = "neox",
    out: tuple[_A, _A] | None = None,
    stream: int | None = None,
) -> tuple[_A, _A]:
    """angle = position / scaling_factor · inv_freq; out_l = x_l · cos(angle) − x_h · sin(angle);
    out_h = x_h · cos(angle) + x_l · sin(angle)."""

def rope(
    q: _A,
    k: _Array,
    positions: _Array,
    cos_sin_cache: _Array,
    *,
    style: Literal["neox", "interleaved", "interleaved_to_half"] = "neox",
    rotary_dim: int | None = None,
    out: tuple[_A, _A] | None = None,
    stream: int | None = None,
) -> tuple[_A, _A]:
    """out_l = x_l · cos − x_h · sin; out_h = x_h · cos + x_l · sin of the first R channels, the
    width of cos_sin_cache."""

def rope_(
    q: _A,
    k: _Array,
    positions: _Array,
    cos_sin_cache: _Array,
    *,
    style: Literal["neox", "interleaved", "interleaved_to_half"] = "neox",
    rotary_dim: int | None = None,
    stream: int | None = None,
) -> None:
    """rope in place, written over q and k."""

def qk_norm_rope(
    q: _A,
    k: _Array,
    q_weight: _Array,
    k_weight: _Array,
    positions: _Array,
    cos_sin_cache: _Array,
    eps: float = 1e-6,
    *,
    style: Literal["neox", "interleaved", "interleaved_to_half"] = "neox",
    rotary_dim: int | None = None,
    key_cache: _Array | None = None,
    slots: _Array | None = None,
    k_scale: float = 1.0,
    out: tuple[_A, _A] | None = None,
    stream: int | None = None,
) -> tuple[_A, _A]:
    """n = x · rsqrt(mean_D(x²) + eps) · weight; out_l = n_l · cos − n_h · sin; out_h = n_h · cos +
    n_l · sin of the first R channels."""

def qk_norm_rope_(
    q: _A,
    k: _Array,
    q_weight: _Array,
    k_weight: _Array,
    positions: _Array,
    cos_sin_cache: _Array,
    eps: float = 1e-6,
    *,
    style: Literal["neox", "interleaved", "interleaved_to_half"] = "neox",
    rotary_dim: int | None = None,
    key_cache: _Array | None = None,
    slots: _Array | None = None,
    k_scale: float = 1.0,
    stream: int | None = None,
) -> None:
    """qk_norm_rope in place, written over q and k."""
