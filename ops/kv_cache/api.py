"""``dlblas.fill_kv_cache`` and ``dlblas.store_mla_cache``: what serving code calls cache stores.

In: arrays of any package that the operators take. Out: nothing, the caches are written; nothing is
computed here, and torch.compile follows it. Read next: store_kv_cache/, store_mla_heads/.
"""

from __future__ import annotations

import math
from typing import Any

from .._functions import FUNCTIONS
from ..errors import ShapeMismatchError

__all__ = ["fill_kv_cache", "store_mla_cache"]

_store_kv_cache = FUNCTIONS["store_kv_cache"].call
_store_mla_heads = FUNCTIONS["store_mla_heads"].call


def fill_kv_cache(
    k: Any,
    v: Any,
    k_cache: Any,
    v_cache: Any,
    slot_mapping: Any,
    k_scale: Any = None,
    v_scale: Any = None,
) -> None:
    """Another name of ``store_kv_cache``: new keys and values into the slots of a paged cache.

    k and v ``[T, Hkv, D]``, k_cache and v_cache ``[P, page, Hkv, D]`` (written), slot_mapping
    ``[T]``: block · page + place, −1 skips a token. The cache holds ``k / k_scale``; scales are f32
    ``[]``, absent ones 1. Dtypes, numerics and errors are store_kv_cache's.
    """
    _store_kv_cache(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale)


def store_mla_cache(
    ckv: Any,
    kpe: Any,
    ckv_cache: Any,
    kpe_cache: Any,
    slot_mapping: Any,
    ckv_scale: Any = None,
    kpe_scale: Any = None,
) -> None:
    """Writes latents and rotary keys of tokens into the slots of two paged caches, in one launch.

    ``ckv_cache[slot / page, slot % page] = ckv / ckv_scale``, kpe_cache alike, for slot =
    ``slot_mapping[t] ≥ 0``; a token whose slot is −1 is skipped, and nothing else changes.

    ckv ``[T, C]``, kpe ``[T, R]`` (512 and 64 in DeepSeek-V2; any widths, fast where they have a
    common divisor of 16 or more), ckv_cache ``[P, page, C]``, kpe_cache ``[P, page, R]``,
    slot_mapping ``[T]`` i32 or i64, scales f32 ``[]``. Rows at any strides, but columns side by
    side. Dtypes, numerics and errors are ``store_mla_heads``'s, which gets the rows in pieces.
    """
    width, rotary = (_width(x, name, 2) for x, name in ((ckv, "ckv"), (kpe, "kpe")))
    wide, narrow = (
        _width(x, name, 3) for x, name in ((ckv_cache, "ckv_cache"), (kpe_cache, "kpe_cache"))
    )
    for name, got, want in (("ckv_cache", wide, width), ("kpe_cache", narrow, rotary)):
        if got != want:
            raise _wrong(name, f"a last dimension of {want}", got)
    piece = math.gcd(width, rotary)
    if piece == 0:
        return
    _store_mla_heads(
        _cut(ckv, piece), _cut(kpe, piece), _cut(ckv_cache, piece), _cut(kpe_cache, piece),
        slot_mapping, ckv_scale, kpe_scale,
    )  # fmt: skip


def _width(x: Any, name: str, rank: int) -> int:
    if len(x.shape) != rank:
        raise _wrong(name, f"{rank} dimensions", tuple(x.shape))
    return int(x.shape[-1])


def _cut(x: Any, piece: int) -> Any:
    """The last dimension in pieces. Of columns side by side this is a view, of any rows."""
    return x.reshape((*x.shape[:-1], x.shape[-1] // piece, piece))


def _wrong(argument: str, expected: str, got: Any) -> ShapeMismatchError:
    return ShapeMismatchError.from_library(
        f"store_mla_cache: {argument} has another shape; expected {expected}, got {got}",
        "store_mla_cache", argument, expected, str(got),
    )  # fmt: skip
