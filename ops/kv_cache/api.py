"""``dlblas.fill_kv_cache``, ``store_mla_cache``, ``paged_attention``, ``mla_decode``: what serving
code calls to write paged caches and to read them.

In: arrays of any package that the operators take. Out: nothing, the caches are written, or what
attention over them gives; nothing is computed here but tables, and torch.compile follows it.
Read next: store_kv_cache/, store_mla_heads/, ../attention/paged_attention_lse/.
"""

from __future__ import annotations

from typing import Any

from .._functions import FUNCTIONS
from ..errors import ArgumentError, ShapeMismatchError

__all__ = ["fill_kv_cache", "mla_decode", "paged_attention", "store_mla_cache"]

IN_TORCH = {
    "fill_kv_cache": {"k_cache": "Tensor(a!)", "v_cache": "Tensor(b!)"},
    "store_mla_cache": {"ckv_cache": "Tensor(a!)", "kpe_cache": "Tensor(b!)"},
}

_store_kv_cache = FUNCTIONS["store_kv_cache"].call
_store_mla_heads = FUNCTIONS["store_mla_heads"].call
_paged = FUNCTIONS["paged_attention_lse"].call
_latent = FUNCTIONS["mla_decode_lse"].call


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
    piece, rest = width, rotary
    while (
        rest
    ):  # their greatest common divisor: math.gcd takes no sizes that torch.compile leaves open
        piece, rest = rest, piece % rest
    if piece == 0:
        return
    _store_mla_heads(
        _cut(ckv, piece), _cut(kpe, piece), _cut(ckv_cache, piece), _cut(kpe_cache, piece),
        slot_mapping, ckv_scale, kpe_scale,
    )  # fmt: skip


def paged_attention(
    q: Any, k_cache: Any, v_cache: Any, page_table: Any, seq_lens: Any = None, *,
    cu_seqlens_q: Any = None, scale: float | None = None, causal: bool = True,
    window: int | None = None, softcap: float | None = None, sinks: Any = None,
    k_scale: Any = None, v_scale: Any = None, layout: str = "NHD", return_lse: bool = False,
) -> Any:  # fmt: skip
    """Attention of new tokens over a paged cache: decoding, and prefill in chunks.

    ``o = softmax(scale · k_scale · q · kᵀ) · v · v_scale`` over the keys of each row's sequence.

    q ``[T, H, D]``, k_cache ``[P, page, Hkv, D]``, v_cache ``[P, page, Hkv, Dv]``, with
    ``layout="HND"`` ``[P, Hkv, page, D]`` -> o ``[T, H, Dv]``; H is a multiple of Hkv. With
    ``return_lse`` a tuple of o and ``lse = log Σ e^score``, f32 ``[T, H]``.

    - ``page_table`` i32 ``[B, W]`` and ``seq_lens`` i32 ``[B]``: key n of sequence b lies in page
      ``page_table[b, n / page]`` at ``n % page``. Or ``page_table`` is a tuple ``(indptr, indices,
      last_page_len)`` of i32 ``[B + 1]``, ``[·]`` and ``[B]``: pages ``indices[indptr[b]]`` …
      ``indices[indptr[b + 1] − 1]``, the last one with that many keys; ``seq_lens`` is then absent;
    - ``cu_seqlens_q`` i32 ``[B + 1]``, from 0 on: where each sequence's rows of q begin. They are
      its last tokens, whose keys are in the cache already. Absent: one row a sequence;
    - ``scale``: None is ``1 / √D``; ``causal``: a row sees no later keys;
    - ``window``: a row sees as many keys before its own, and after it unless causal;
    - ``softcap``: scores are ``softcap · tanh(score / softcap)``;
    - ``sinks`` f32 ``[H]``: ``e^sink`` counts in the denominator, and in lse;
    - ``k_scale``, ``v_scale`` f32 ``[]``: what the caches' numbers are multiplied with.

    q is f32, f16 or bf16, o too; caches have its dtype, f8e4m3 or f8e5m2; any strides. Slots that
    no row sees are not read. A row that sees nothing is 0, its lse −inf. Nothing waits for a GPU;
    a captured graph serves other lengths. Errors: those of ``paged_attention_lse``. Source: Kwon et
    al., PagedAttention, 2023; FlashInfer's tables.
    """
    if layout not in ("NHD", "HND"):
        expected = "NHD, HND"
        raise ArgumentError.from_library(
            f"paged_attention: layout is not offered; expected {expected}, got {layout!r}",
            "paged_attention", "layout", expected, repr(layout),
        )  # fmt: skip
    if layout == "HND":
        k_cache, v_cache = k_cache.swapaxes(1, 2), v_cache.swapaxes(1, 2)
    indptr = None
    if isinstance(page_table, tuple):
        indptr, indices, last = page_table
        pages = indptr[1:] - indptr[:-1]
        seq_lens = ((pages - 1) * k_cache.shape[1] + last) * (pages > 0)
        page_table = indices.reshape((1, -1))
    o, lse = _paged(
        q, k_cache, v_cache, page_table, seq_lens, cu_seqlens_q, indptr, sinks, k_scale, v_scale,
        scale=scale or 0.0, causal=causal, window=-1 if window is None else window,
        softcap=softcap or 0.0,
    )  # fmt: skip
    return (o, lse) if return_lse else o


def mla_decode(
    q_nope: Any, q_pe: Any, ckv_cache: Any, kpe_cache: Any, page_table: Any, seq_lens: Any,
    scale: float | None = None, return_lse: bool = False,
) -> Any:  # fmt: skip
    """DeepSeek's latent attention of one new token a sequence over a paged cache.

    ``o = softmax(scale · (q_nope · ckvᵀ + q_pe · kpeᵀ)) · ckv`` over the token's keys.

    q_nope ``[T, H, R]``, in the latents' space, q_pe ``[T, H, Dr]``, ckv_cache ``[P, page, R]``,
    kpe_cache ``[P, page, Dr]`` (R 512 and Dr 64 in DeepSeek-V2), page_table i32 ``[T, W]``,
    seq_lens i32 ``[T]`` -> o ``[T, H, R]``. With ``return_lse`` a tuple of o and ``lse = log Σ
    e^score``, f32 ``[T, H]``. ``scale``: None is ``1 / √(R + Dr)``; models have one of their own.

    q_nope is f32, f16 or bf16, all else has its dtype; any strides, so that slices of one cache
    ``[P, page, R + Dr]`` will do. Slots after a sequence's end are not read. A token without keys
    is 0, its lse −inf. Nothing waits for a GPU; a captured graph serves other lengths. Errors:
    those of ``mla_decode_lse``. Source: DeepSeek-AI, DeepSeek-V2, 2024.
    """
    o, lse = _latent(q_nope, q_pe, ckv_cache, kpe_cache, page_table, seq_lens, scale=scale or 0.0)
    return (o, lse) if return_lse else o


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
