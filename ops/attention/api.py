"""``dlblas.flash_attention``, ``dlblas.flash_attention_varlen``: attention as models call it; and
DLBlas' ``flash_attention_v2`` and ``fused_rotary_and_fa``.

In: arrays of any package that the operators accept. Out: the operators' results; this module
computes nothing, and torch.compile traces through it. Read next: flash_attention_lse/,
flash_attention_rotary/, flash_attention_varlen_lse/.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._functions import FUNCTIONS
from .._given import need
from .._hooks import older_forms
from .._results import attention
from .._scores import check_length, flag_of, scale_of, softcap_of, window_of
from .._spread import doubled, spread, without_heads
from ..errors import ArgumentError, ShapeMismatchError

__all__ = ["flash_attention", "flash_attention_v2", "flash_attention_varlen", "fused_rotary_and_fa"]

_dense = FUNCTIONS["flash_attention_lse"].call
_packed = FUNCTIONS["flash_attention_varlen_lse"].call
_dense_f8 = FUNCTIONS["flash_attention_f8_lse"].call
_packed_f8 = FUNCTIONS["flash_attention_varlen_f8_lse"].call
_rotary = FUNCTIONS["flash_attention_rotary"].call
_merge = FUNCTIONS["merge_attention_states"].call


def flash_attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None,
    window: int | None = None, softcap: float | None = None, bias: Any = None,
    return_lse: bool = False, q_descale: Any = None, k_descale: Any = None, v_descale: Any = None,
    out_dtype: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Attention: ``softmax(scale · q · kᵀ + bias) · v``, without storing the scores in memory.

    q ``[B, S, H, D]``, k ``[B, L, Hkv, D]``, v ``[B, L, Hkv, Dv]`` -> o ``[B, S, H, Dv]``; H is a
    multiple of Hkv, and query head h reads head ``h // (H / Hkv)`` of k and v. With ``return_lse``
    the result is a tuple of o and ``lse = log Σ e^score``, f32 ``[B, H, S]``.

    - ``causal``: query s sees keys up to ``s + L − S``, so the last query sees the last key;
    - ``scale``: None means ``1 / √D``; with 0 a query weighs the keys that it sees alike (one more
      pass over q);
    - ``window``: a query sees this many keys before its own position and, unless causal, as many
      after it;
    - ``softcap``: scores are ``softcap · tanh(scale · q · k / softcap)``;
    - ``bias``: broadcast to ``[B, H, S, L]`` as in torch, so ``[S, L]`` serves too; q's dtype or
      f32, or bool: False hides a key (each call converts it to 0 and −inf). In torch its gradient
      is computed with torch's operators, one head at a time: slower than those of q, k and v;
    - ``q_descale``, ``k_descale``, ``v_descale``, for f8 only: factors of the codes, f32 ``[B,
      Hkv]``, where either may be 1, ``[Hkv]`` or ``[]``; ``out_dtype``, for f8 only: o's, bf16
      (None), f16 or f32;
    - ``out``: where o goes, or with ``return_lse`` a tuple of places for o and lse; no gradient.

    q is f32, f16 or bf16, and k, v and o have its dtype; or q, k and v are all f8e4m3 or all
    f8e5m2, without a gradient (``flash_attention_f8_lse``). Any strides. A query that sees no key
    has o = 0 and lse = −inf. Scores and sums are f32, with one rounding at the store. Errors: those
    of ``flash_attention_lse``. Source: Dao, FlashAttention-2, 2023; Shah et al., FlashAttention-3,
    2024.
    """
    scale, q = scale_of("flash_attention", scale, q)
    scalars = {
        "causal": causal,
        "scale": scale,
        "window": window_of("flash_attention", window),
        "softcap": softcap_of("flash_attention", softcap),
    }
    return_lse = flag_of("flash_attention", "return_lse", return_lse)
    if bias is not None:
        bias = _as_bias(q, k, bias)
    factors = q_descale, k_descale, v_descale
    if _is_f8(q):
        factors = _per_head(q_descale), _per_head(k_descale), _per_head(v_descale)

        def call(to: Any) -> Any:
            return _dense_f8(q, k, v, bias, *factors, **scalars, out_dtype=out_dtype, out=to)
    else:
        _f8_alone("flash_attention", q, factors, out_dtype)

        def call(to: Any) -> Any:
            return _dense(q, k, v, bias, **scalars, out=to)

    return attention("flash_attention", call, q, out, return_lse, _lse_of_batch)


def flash_attention_varlen(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_s: int | None = None,
    max_l: int | None = None, *, causal: bool = False, scale: float | None = None,
    window: int | None = None, softcap: float | None = None, return_lse: bool = False,
    q_descale: Any = None, k_descale: Any = None, v_descale: Any = None, out_dtype: Any = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """Attention of packed sequences of any lengths: ``flash_attention`` of each.

    q ``[T, H, D]``, k ``[U, Hkv, D]``, v ``[U, Hkv, Dv]``, cu_seqlens_q and cu_seqlens_k ``[N +
    1]``: sequence n has rows ``cu_seqlens[n]`` … ``cu_seqlens[n + 1] − 1``, and the first entry
    counts as 0 -> o ``[T, H, Dv]``;
    with ``return_lse`` a tuple of o and lse, f32 ``[H, T]``. ``max_s`` and ``max_l``, the lengths
    of the longest sequences, are integers or None, as in other libraries, and are not read.
    Lengths are read only on the device, so a captured graph serves other lengths. The other
    arguments, dtypes and numerics are those of ``flash_attention``, with descales ``[N, Hkv]``, as
    is ``out``; errors are those of ``flash_attention_varlen_lse``. Source: flash_attn_varlen_func
    of FlashAttention-2, Dao, 2023.
    """
    op = "flash_attention_varlen"
    check_length(op, "max_s", max_s)
    check_length(op, "max_l", max_l)
    return_lse = flag_of(op, "return_lse", return_lse)
    scale, q = scale_of(op, scale, q)
    scalars = {
        "causal": causal, "scale": scale, "window": window_of(op, window),
        "softcap": softcap_of(op, softcap),
    }  # fmt: skip
    tensors = q, k, v, cu_seqlens_q, cu_seqlens_k
    factors = q_descale, k_descale, v_descale
    if _is_f8(q):
        factors = _per_head(q_descale), _per_head(k_descale), _per_head(v_descale)

        def call(to: Any) -> Any:
            return _packed_f8(*tensors, *factors, **scalars, out_dtype=out_dtype, out=to)
    else:
        _f8_alone(op, q, factors, out_dtype)

        def call(to: Any) -> Any:
            return _packed(*tensors, **scalars, out=to)

    return attention(op, call, q, out, return_lse, _lse_of_rows)


def _lse_of_batch(q: tuple[Any, ...]) -> tuple[Any, ...]:
    return q if len(q) != 4 else (q[0], q[2], q[1])


def _lse_of_rows(q: tuple[Any, ...]) -> tuple[Any, ...]:
    return q[1::-1]


def flash_attention_v2(q: Any, k: Any, v: Any, *, out: Any = None) -> Any:
    """DLBlas' name for ``flash_attention`` without a mask: q, k, v ``[B, S, H, D]`` -> o.

    ``softmax(q · kᵀ / √D) · v``; ``out``: where o goes. Shapes, dtypes, numerics and errors are
    those of ``flash_attention``.
    """
    return flash_attention(q, k, v, out=out)


def fused_rotary_and_fa(q: Any, k: Any, v: Any, cos: Any, sin: Any, *, out: Any = None) -> Any:
    """Rotation of query and key heads, then attention without a mask: o ``[B, S, H, Dv]``.

    Rotates the pairs ``(i, i + D/2)`` as ``apply_rotary_pos_emb`` does, then calls
    ``flash_attention``.

    q ``[B, S, H, D]``, k ``[B, S, Hkv, D]``, v ``[B, S, Hkv, Dv]``, cos and sin ``[B, S, D]`` or
    ``[S, D]``, where B may be 1 and a dimension of 1 may precede D; tables of D/2 columns serve
    both halves. q and k are not modified; rotated heads are rounded to q's dtype. This is
    ``flash_attention_rotary`` without a mask: on a GPU one launch for short sequences, else two, of
    which on Hopper the first rotates only k; ``dlblas tune flash_attention_rotary`` measures them.
    ``out``: where o goes. Gradients, in torch, recompute o; ``dlblas.kernels.fused_rotary_and_fa``
    does not need to. Errors: ShapeMismatchError for other tables, and those of
    ``flash_attention_rotary``. Source: Su et al., RoFormer, 2021; Dao, FlashAttention-2, 2023.
    """
    need("fused_rotary_and_fa", q=q, k=k, v=v, cos=cos, sin=sin)
    if len(q.shape) == 4:  # the operator refuses others
        tokens = tuple(q.shape[:-2])
        cos, sin = (
            _table(table, name, tokens, int(q.shape[-1]))
            for table, name in ((cos, "cos"), (sin, "sin"))
        )
    return attention(
        "fused_rotary_and_fa", lambda to: _rotary(q, k, v, cos, sin, out=to), q, out, False,
        _lse_of_batch,
    )  # fmt: skip


# Of tables of D/2 columns a GPU gets a copy with D. Without it they take cuda_composed, since
# cuda_mma and cuda_wgmma read tables of D columns only. Before this becomes False, on a GPU:
# tests/test_flash_attention_rotary.py, and times of both ways.
_DOUBLES_ON_CUDA = True


def _as_bias(q: Any, k: Any, bias: Any) -> Any:
    """The bias with four dimensions and all keys, as a view; a mask as 0 and −inf."""
    shape = tuple(getattr(bias, "shape", ()))
    if not hasattr(bias, "reshape"):
        return bias
    if str(getattr(bias, "dtype", "")).rpartition(".")[2] == "bool":
        bias = _hiding(q, bias)
    if len(shape) < 4:
        bias = bias.reshape((1,) * (4 - len(shape)) + shape)
    keys = tuple(getattr(k, "shape", ()))[1:2]
    if len(shape) <= 4 and keys and bias.shape[3] == 1 != keys[0]:
        bias = spread(bias, (*bias.shape[:3], *keys))
    return bias


def _hiding(q: Any, mask: Any) -> Any:
    """0 where the mask is True, else −inf, in q's dtype; in f32 for f8, and beside a q of another
    package."""
    if hasattr(mask, "new_empty"):
        import torch

        kind = torch.float32 if _is_f8(q) else getattr(q, "dtype", None)
        kind = kind if isinstance(kind, torch.dtype) else torch.float32
        return torch.zeros_like(mask, dtype=kind).masked_fill(~mask, float("-inf"))
    np = import_module("numpy")
    kind = getattr(q, "dtype", None)
    if _is_f8(q) or not isinstance(kind, np.dtype):
        kind = np.float32
    return np.where(mask, 0.0, float("-inf")).astype(kind)


def _per_head(factor: Any) -> Any:
    """A descale ``[Hkv]`` or ``[]`` as ``[1, ·]``."""
    shape = getattr(factor, "shape", None)
    if shape is None or len(shape) > 1 or not hasattr(factor, "reshape"):
        return factor
    return factor.reshape((1, *shape) if len(shape) else (1, 1))


def _is_f8(x: Any) -> bool:
    return "float8" in str(getattr(x, "dtype", ""))


def _f8_alone(op: str, q: Any, factors: tuple[Any, Any, Any], out_dtype: Any) -> None:
    if str(getattr(q, "dtype", "")).rpartition(".")[2] not in ("float32", "float16", "bfloat16"):
        return  # the operator refuses q
    given = zip(
        ("q_descale", "k_descale", "v_descale", "out_dtype"), (*factors, out_dtype), strict=True
    )
    for name, value in given:
        if value is not None:
            expected = "None unless q, k and v are f8"
            raise ArgumentError.from_library(
                f"{op}: {name} belongs to f8; expected {expected}, got a value; use scale=, or "
                "convert the result",
                op, name, expected, "a value",
            )  # fmt: skip


def _table(table: Any, name: str, tokens: tuple[int, ...], width: int) -> Any:
    """One table for all sequences, or one per sequence: a view, but on a GPU of D/2 columns."""
    found = tuple(table.shape)
    table = without_heads(table, tokens)
    shape = tuple(table.shape)
    copied = _DOUBLES_ON_CUDA and "cuda" in str(getattr(table, "device", "cpu")).lower()
    if copied and 2 * shape[-1] == width:
        table, shape = doubled(table), (*shape[:-1], width)
    wanted = (*tokens, shape[-1])
    ahead = (1,) * (len(wanted) - len(shape)) + shape
    if len(ahead) != len(wanted) or any(
        have not in (1, want) for have, want in zip(ahead, wanted, strict=True)
    ):
        expected = f"[S, D], [B, S, D], or these with a 1 before D, for tokens {tokens}"
        raise ShapeMismatchError.from_library(
            f"fused_rotary_and_fa: {name} has another shape; expected {expected}, got {found}",
            "fused_rotary_and_fa", name, expected, str(found),
        )  # fmt: skip
    rows = (ahead[0], *wanted[1:])
    return table if shape == rows else spread(table, rows)


def _merge_one(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """``merge_attention_states`` of one row, o ``[D]`` and lse ``[]``: as rows ``[1, ·]``."""
    parts = ("o1", "lse1", "o2", "lse2")
    given = {**dict(zip(parts, args, strict=False)), **named}
    out = given.pop("out", None)
    ranks = [_rank(given.get(name)) for name in parts]
    if ranks != [1, 0, 1, 0] or len(given) != 4 or len(args) > 4:
        return None
    rows = None
    if out is not None:
        if not isinstance(out, tuple) or [*map(_rank, out)] != [1, 0]:
            return None
        rows = tuple(x[None] for x in out)
    o, lse = _merge(*(given[name][None] for name in parts), out=rows)
    return (o[0], lse[0]) if out is None else out


def _rank(x: Any) -> int:
    shape = getattr(x, "shape", None)
    return len(shape) if isinstance(shape, tuple) else -1


older_forms.update(merge_attention_states=_merge_one)
