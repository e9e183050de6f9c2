"""``dlblas.fill_kv_cache``, ``store_mla_cache``, ``paged_attention``, ``mla_decode``: the functions
with which serving code writes and reads paged caches.

In: arrays of any package that the operators accept. Out: nothing but the written caches, or
attention over them; this module computes only tables, and torch.compile traces through it.
Read next: store_kv_cache/, store_mla_heads/, ../attention/paged_attention_lse/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._dtypes import name_of
from .._functions import FUNCTIONS
from .._given import is_numpy, need
from .._results import attention
from .._scores import flag_of, scale_of, softcap_of, window_of
from .._spread import spread
from ..errors import ArgumentError, ArgumentTypeError, ShapeMismatchError

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
    """Another name for ``store_kv_cache``: writes new keys and values into slots of a paged cache.

    k ``[*T, Hkv, D]``, v ``[*T, Hkv, Dv]``, k_cache ``[P, page, Hkv, D]`` and v_cache ``[P, page,
    Hkv, Dv]`` (written), slot_mapping ``[*T]``: block · page + place in the block; −1 skips a
    token. The caches hold ``k / k_scale`` and ``v / v_scale``; scales are f32 ``[]``, and an absent
    one is 1. Dtypes, numerics and errors are those of ``store_kv_cache``.
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

    ``ckv_cache[slot / page, slot % page] = ckv / ckv_scale``, and likewise kpe_cache, for slot =
    ``slot_mapping[t] ≥ 0``; a token whose slot is −1 is skipped, and nothing else changes.

    ckv ``[*T, C]``, kpe ``[*T, R]`` (512 and 64 in DeepSeek-V2; any widths, fast where they have a
    common divisor of 16 or more), ckv_cache ``[P, page, C]``, kpe_cache ``[P, page, R]``,
    slot_mapping ``[*T]`` i32 or i64, scales f32 ``[]``. Any strides. Dtypes, numerics and errors
    are those of ``store_mla_heads``, which receives the rows in pieces.
    """
    op = "store_mla_cache"
    need(op, ckv=ckv, kpe=kpe, ckv_cache=ckv_cache, kpe_cache=kpe_cache)
    width, rotary = (_size(op, x, name, 2, more=True) for x, name in ((ckv, "ckv"), (kpe, "kpe")))
    wide, narrow = (
        _size(op, x, name, 3) for x, name in ((ckv_cache, "ckv_cache"), (kpe_cache, "kpe_cache"))
    )
    for name, got, want in (("ckv_cache", wide, width), ("kpe_cache", narrow, rotary)):
        if got != want:
            raise _wrong(op, name, f"a last dimension of {want}", got)
    piece, rest = width, rotary
    # Their greatest common divisor: math.gcd does not accept torch.compile's symbolic sizes.
    while rest:
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
    out: Any = None,
) -> Any:  # fmt: skip
    """Attention of new tokens over a paged cache: decoding, and prefill in chunks.

    ``o = softmax(scale · k_scale · q · kᵀ) · v · v_scale`` over the keys of each row's sequence.

    q ``[T, H, D]``, k_cache ``[P, page, Hkv, D]``, v_cache ``[P, page, Hkv, Dv]``, with
    ``layout="HND"`` ``[P, Hkv, page, D]`` -> o ``[T, H, Dv]``; H is a multiple of Hkv. With
    ``return_lse`` the result is a tuple of o and ``lse = log Σ e^score``, f32 ``[T, H]``.

    - ``page_table`` ``[B, W]`` and ``seq_lens`` ``[B]``: key n of sequence b is in page
      ``page_table[b, n / page]`` at ``n % page``. Or ``page_table`` is a tuple ``(indptr, indices,
      last_page_len)``, ``[B + 1]``, ``[·]`` and ``[B]``: sequence b has pages
      ``indices[indptr[b]]`` … ``indices[indptr[b + 1] − 1]``, the last one with last_page_len keys,
      0 to page (checked on CPUs); ``seq_lens`` is then absent;
    - ``cu_seqlens_q`` ``[B + 1]``, starting at 0: where each sequence's rows of q begin. They
      are its last tokens, whose keys are already in the cache. Absent: one row per sequence. With q
      ``[B, S, H, D]`` each sequence has S rows, and results are ``[B, S, H, Dv]``, ``[B, S, H]``;
    - ``scale``: None means ``1 / √D``, 0 weighs all keys alike; ``causal``: a row sees no later
      keys;
    - ``window``: a row sees this many keys before its own and, unless causal, as many after it;
    - ``softcap``: scores are ``softcap · tanh(score / softcap)``;
    - ``sinks`` ``[H]``, f32 or q's dtype: ``e^sink`` is added to the denominator, and so to lse.
      The operator takes f32; each call converts q's dtype, on a GPU with an extra launch;
    - ``k_scale``, ``v_scale`` f32 ``[]``: factors of the values in the caches;
    - ``out``: where o goes, or with ``return_lse`` a tuple of places for o and lse.

    q is f32, f16 or bf16, and o has its dtype; caches have q's dtype, f8e4m3 or f8e5m2; tables,
    lengths and offsets are i32 or i64; any strides. Slots that no row sees are not read. A row that
    sees nothing has o = 0 and lse = −inf, or the sink if there is one; a row of no sequence has o =
    0 and lse = −inf. Nothing waits for a GPU; a captured graph serves other lengths. Errors:
    ArgumentError for a window below 0, another layout, a last page with more keys than a page
    holds; those of ``paged_attention_lse``. Source: Kwon et al., PagedAttention, 2023; FlashInfer's
    tables.
    """
    op = "paged_attention"
    need(op, q=q, k_cache=k_cache, v_cache=v_cache, page_table=page_table)
    if layout not in ("NHD", "HND"):
        expected = "NHD, HND"
        raise ArgumentError.from_library(
            f"paged_attention: layout is not offered; expected {expected}, got {layout!r}",
            "paged_attention", "layout", expected, repr(layout),
        )  # fmt: skip
    if layout == "HND":
        for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
            if len(cache.shape) != 4:
                raise _wrong(op, name, "[P, Hkv, page, D]", tuple(cache.shape))
        k_cache, v_cache = k_cache.swapaxes(1, 2), v_cache.swapaxes(1, 2)
    indptr = None
    if isinstance(page_table, (tuple, list)):
        indptr, indices, last = _pages(page_table, seq_lens)
        pages, page = indptr[1:] - indptr[:-1], _size(op, k_cache, "k_cache", 4, at=1)
        _check_indptr(indptr, int(indices.shape[0]))
        _check_last(last, page)
        seq_lens = ((pages - 1) * page + last) * (pages > 0)
        page_table = indices[None]
    if sinks is not None:
        sinks = _as_f32(sinks, q)
    lead = None
    if len(q.shape) == 4:
        q, lead, cu_seqlens_q = _rows(q, seq_lens, cu_seqlens_q)
    scale, q = scale_of(op, scale, q)
    scores = {
        "scale": scale, "causal": causal, "window": window_of(op, window),
        "softcap": softcap_of(op, softcap),
    }  # fmt: skip
    return_lse = flag_of(op, "return_lse", return_lse)

    def call(to: Any) -> Any:
        return _paged(
            q, k_cache, v_cache, page_table, seq_lens, cu_seqlens_q, indptr, sinks, k_scale,
            v_scale, **scores, out=to,
        )  # fmt: skip

    return _split(op, call, q, lead, out, return_lse)


def mla_decode(
    q_nope: Any, q_pe: Any, ckv_cache: Any, kpe_cache: Any, page_table: Any, seq_lens: Any,
    scale: float | None = None, return_lse: bool = False, *, ckv_scale: Any = None,
    kpe_scale: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """DeepSeek's latent attention over a paged cache, of one new token per sequence or several.

    ``o = softmax(scale · (q_nope · ckvᵀ + q_pe · kpeᵀ)) · ckv`` over the token's keys, for
    ``ckv = ckv_cache · ckv_scale`` and ``kpe = kpe_cache · kpe_scale``.

    q_nope ``[T, H, R]``, in the latents' space, q_pe ``[T, H, Dr]``, ckv_cache ``[P, page, R]``,
    kpe_cache ``[P, page, Dr]`` (R 512 and Dr 64 in DeepSeek-V2), page_table ``[T, W]``,
    seq_lens ``[T]`` -> o ``[T, H, R]``. With ``return_lse`` the result is a tuple of o and
    ``lse = log Σ e^score``, f32 ``[T, H]``. ``scale``: None means ``1 / √(R + Dr)``; models set
    their own. Queries ``[B, S, H, ·]`` beside page_table ``[B, W]`` and seq_lens ``[B]`` are each
    sequence's last S tokens, whose keys are already in the caches; a token sees the keys up to its
    own, and results are ``[B, S, H, ·]``. ``out``: where o goes, or with ``return_lse`` a tuple of
    places for o and lse.

    q_nope is f32, f16 or bf16; q_pe and o have its dtype. Both caches have it too, or both hold
    f8e4m3 or f8e5m2, as ``store_mla_cache`` writes them, with its scales, f32 ``[]``. Any
    strides, so slices of one cache ``[P, page, R + Dr]`` work. Slots after a sequence's end are not
    read. A token without keys has o = 0 and lse = −inf. Nothing waits for a GPU; a captured graph
    serves other lengths. Errors: those of ``mla_decode_lse``. Source: DeepSeek-AI, DeepSeek-V2,
    2024.
    """
    op = "mla_decode"
    need(op, q_nope=q_nope, q_pe=q_pe)
    return_lse = flag_of(op, "return_lse", return_lse)
    (scale, q_nope, q_pe), lead = scale_of(op, scale, q_nope, q_pe), None
    if len(q_nope.shape) == 4:
        lead = tuple(q_nope.shape[:2])
        if tuple(q_pe.shape[:-1]) != tuple(q_nope.shape[:-1]):
            raise _wrong(op, "q_pe", f"{(*q_nope.shape[:-1], 'Dr')}", tuple(q_pe.shape))
        if lead[1] == 1:
            q_nope, q_pe = q_nope[:, 0], q_pe[:, 0]
        else:
            page_table, seq_lens = _of_each_token(lead, page_table, seq_lens)
            q_nope, q_pe = (x.reshape((lead[0] * lead[1], *x.shape[2:])) for x in (q_nope, q_pe))

    def call(to: Any) -> Any:
        return _latent(
            q_nope, q_pe, ckv_cache, kpe_cache, page_table, seq_lens, scale, ckv_scale, kpe_scale,
            out=to,
        )  # fmt: skip

    return _split(op, call, q_nope, lead, out, return_lse)


def _rows(q: Any, seq_lens: Any, cu_seqlens_q: Any) -> tuple[Any, tuple[int, int], Any]:
    """q ``[B, S, H, D]`` as rows, its leading dimensions, and where each sequence's rows begin."""
    op = "paged_attention"
    if cu_seqlens_q is not None:
        raise _wrong(op, "q", "[T, H, D] beside cu_seqlens_q", tuple(q.shape))
    batch, count = q.shape[:2]
    sequences = getattr(seq_lens, "shape", None)
    if sequences is not None and len(sequences) == 1 and sequences[0] != batch:
        raise _wrong(op, "q", f"{sequences[0]} sequences, as seq_lens", tuple(q.shape))
    rows = q.reshape((batch * count, *q.shape[2:]))
    if count == 1:
        return rows, (batch, count), None
    if hasattr(q, "is_cuda"):
        import torch

        starts = torch.arange(batch + 1, dtype=torch.int32, device=q.device) * count
    else:
        import numpy

        starts = numpy.arange(batch + 1, dtype=numpy.int32) * numpy.int32(count)
    return rows, (batch, count), starts


def _of_each_token(lead: tuple[int, int], page_table: Any, seq_lens: Any) -> tuple[Any, Any]:
    """The table and the lengths of B sequences' last S tokens, as of B · S sequences: each ends at
    its token."""
    op, (batch, count) = "mla_decode", lead
    need(op, page_table=page_table, seq_lens=seq_lens)
    table, lengths = tuple(page_table.shape), tuple(seq_lens.shape)
    if len(table) != 2 or table[0] not in (1, batch):
        raise _wrong(op, "page_table", f"({batch}, W)", table)
    if lengths != (batch,):
        raise _wrong(op, "seq_lens", f"({batch},)", lengths)
    if table[0] == batch:
        rows = spread(page_table[:, None], (batch, count, table[1]))
        page_table = rows.reshape((batch * count, table[1]))
    back = _arange(count, seq_lens) - (count - 1)
    seq_lens = (seq_lens[:, None] + back).reshape((batch * count,))
    return page_table, seq_lens * (seq_lens > 0)


def _arange(count: int, like: Any) -> Any:
    """0 … count − 1 in the dtype and on the device of ``like``."""
    if hasattr(like, "is_cuda"):
        import torch

        return torch.arange(count, dtype=like.dtype, device=like.device)
    import numpy

    return numpy.arange(count, dtype=like.dtype)


def _split(
    op: str, call: Callable[[Any], Any], q: Any, lead: tuple[int, int] | None, out: Any,
    return_lse: bool,
) -> Any:  # fmt: skip
    """Results with q's leading dimensions."""
    if out is not None:
        rows = 2 if lead is not None else 0
        return attention(op, call, q, out, return_lse, lambda shape: shape[:2], rows)
    o, lse = call(None)
    if lead is not None:
        o = o.reshape((*lead, *o.shape[1:]))
        lse = lse.reshape((*lead, *lse.shape[1:]))
    return (o, lse) if return_lse else o


def _pages(given: Any, seq_lens: Any) -> tuple[Any, Any, Any]:
    """Checks and returns the three vectors (indptr, indices, last_page_len)."""
    op, parts = "paged_attention", "(indptr, indices, last_page_len)"
    there = [getattr(x, "shape", None) for x in given]
    if len(there) != 3 or any(shape is None or len(shape) != 1 for shape in there):
        words = [
            type(x).__name__ if shape is None else str(tuple(shape))
            for x, shape in zip(given, there, strict=True)
        ]
        expected, got = f"a table [B, W], or three vectors {parts}", f"({', '.join(words)})"
        raise ArgumentTypeError.from_library(
            f"{op}: page_table has another form; expected {expected}, got {got}",
            op, "page_table", expected, got,
        )  # fmt: skip
    for x in given:
        kind = name_of(x.dtype) or str(x.dtype)
        if kind not in ("i32", "i64"):
            expected, got = f"three vectors {parts} of i32 or i64", f"one of {kind}"
            raise ArgumentTypeError.from_library(
                f"{op}: page_table has another form; expected {expected}, got {got}",
                op, "page_table", expected, got,
            )  # fmt: skip
    if seq_lens is not None:
        expected = f"None beside {parts}"
        raise ArgumentError.from_library(
            f"{op}: seq_lens is given twice; expected {expected}, got both",
            op, "seq_lens", expected, "both",
        )  # fmt: skip
    if len(given[2]) + 1 != len(given[0]):
        expected = f"({len(given[0]) - 1},), one less than indptr"
        raise _wrong(op, "last_page_len", expected, tuple(given[2].shape))
    return given[0], given[1], given[2]


def _as_f32(sinks: Any, q: Any) -> Any:
    """Sinks of q's dtype, f16 or bf16, as f32; the operator judges all others."""
    dtype = getattr(sinks, "dtype", None)
    if type(dtype) is not type(getattr(q, "dtype", None)) or dtype != q.dtype:
        return sinks
    if name_of(dtype) not in ("f16", "bf16"):
        return sinks
    if hasattr(sinks, "is_cuda"):
        return sinks.float()
    return sinks.astype("float32") if hasattr(sinks, "astype") else sinks


def _is_readable(x: Any) -> bool:
    """Whether values are on a CPU: nothing waits for those on a GPU."""
    if hasattr(x, "is_cuda"):
        import torch

        plain = not torch.compiler.is_compiling() and type(x) is torch.Tensor
        return plain and x.device.type == "cpu" and 0 not in x.shape
    return is_numpy(x) and 0 not in x.shape


def _check_indptr(indptr: Any, count: int) -> None:
    """Checks values that are on a CPU; on a GPU an entry beyond ``indices`` is no page."""
    if not _is_readable(indptr):
        return
    if bool((indptr[1:] < indptr[:-1]).any()) or int(indptr[0]) < 0 or int(indptr[-1]) > count:
        expected = f"numbers from 0 to {count}, the length of indices, none below the one before"
        got = str(indptr.tolist())[:60]
        raise ArgumentError.from_library(
            f"paged_attention: indptr is out of range; expected {expected}, got {got}",
            "paged_attention", "indptr", expected, got,
        )  # fmt: skip


def _check_last(last: Any, page: int) -> None:
    """Checks values that are on a CPU; on a GPU a sequence's keys end with its last page."""
    if not _is_readable(last):
        return
    least, most = int(last.min()), int(last.max())
    if least < 0 or most > page:
        expected = f"0 to {page}, the keys of a page"
        got = str(least if least < 0 else most)
        raise ArgumentError.from_library(
            f"paged_attention: last_page_len is out of range; expected {expected}, got {got}",
            "paged_attention", "last_page_len", expected, got,
        )  # fmt: skip


def _size(op: str, x: Any, name: str, rank: int, at: int = -1, *, more: bool = False) -> int:
    if len(x.shape) < rank or (len(x.shape) > rank and not more):
        words = f"{rank} dimensions or more" if more else f"{rank} dimensions"
        raise _wrong(op, name, words, tuple(x.shape))
    return int(x.shape[at])


def _cut(x: Any, piece: int) -> Any:
    """Cuts the last dimension into pieces: a view, whatever the strides."""
    return x.reshape((*x.shape[:-1], x.shape[-1] // piece, piece))


def _wrong(op: str, argument: str, expected: str, got: Any) -> ShapeMismatchError:
    return ShapeMismatchError.from_library(
        f"{op}: {argument} has another shape; expected {expected}, got {got}",
        op, argument, expected, str(got),
    )  # fmt: skip
