"""``dlblas.gated_mlp``, ``dlblas.gated_mlp_quant`` and ``dlblas.fused_gated_mlp``: feed-forward
layers; and ``dlblas.rms_norm_linear``: a projection after a norm.

In: arrays of any package that the operators accept. Out: the results of this family's operators;
this module computes nothing, and torch.compile traces through it. Read next: gated_linear/,
norm_linear/, norm_gated_linear/, linear_rope/.
"""

from __future__ import annotations

import math
from typing import Any

from .._dtypes import name_of
from .._functions import FUNCTIONS
from .._given import as_rows, asks_for_gradients, converted, flattens, grad_error, need
from .._hooks import older_forms
from .._joined import form as joined
from .._overlap import check_apart
from .._spread import doubled, spread
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    Error,
    ShapeMismatchError,
    UnsupportedDtypeError,
    renamed,
)

__all__ = ["fused_gated_mlp", "gated_mlp", "gated_mlp_quant", "rms_norm_linear"]

IN_TORCH = {"rms_norm_linear": {"rope": ""}}  # a tuple of tables and numbers
_TURNED = {"w_gate": "w_up", "w_up": "w_gate"}  # of gated_linear, whose first weight is activated
CALLED = {
    "fused_gated_mlp": {"w_gate": "up_weight", "w_up": "gate_weight"},
    "gated_mlp": {"a": "x", "b": "w_down", "out": "out"},  # matmul's
    "rms_norm_linear": {"cos": "rope[0]", "sin": "rope[1]"},
}

_gated = FUNCTIONS["gated_linear"].call
_gated_codes = FUNCTIONS["gated_linear_quant_group"].call
_norm_linear = FUNCTIONS["norm_linear"].call
_matmul = FUNCTIONS["matmul"].call
_rms_norm = FUNCTIONS["rms_norm"].call
_linear_rope = FUNCTIONS["linear_rope"].call
_rotate = FUNCTIONS["apply_rotary_pos_emb_"].call


def gated_mlp(
    x: Any, w_gate: Any, w_up: Any, *, activation: str = "silu", activate: str = "gate",
    w_down: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The gated part of a feed-forward layer in one pass over x; the whole layer with ``w_down``.

    ``h = act(x · w_gateᵀ) ⊙ (x · w_upᵀ)``, or with ``activate="up"`` ``(x · w_gateᵀ) ⊙ act(x ·
    w_upᵀ)``; returns h, or ``h · w_downᵀ``.

    x ``[*T, K]`` f32, f16 or bf16, w_gate and w_up ``[F, K]``, w_down ``[N, F]`` in its dtype ->
    ``[*T, F]``, or ``[*T, N]``; x is copied if no view joins its leading dimensions. Products and
    sums are f32; activation and gating act on the f32 sums, and h is rounded once, at its store.
    ``activation``: ``silu``, ``gelu`` (erf), ``gelu_tanh``, ``relu``. Gradients of all tensors, in
    torch. ``out``: the destination; with ``w_down`` it may be x, which is overwritten last. Errors:
    ArgumentError for another ``activate``; those of ``gated_linear`` and ``matmul``. Source:
    Shazeer, GLU Variants Improve Transformer, 2020.
    """
    if activate not in ("gate", "up"):
        raise ArgumentError.from_library(
            f'gated_mlp: activate is not offered; expected "gate" or "up", got {activate!r}',
            "gated_mlp", "activate", '"gate" or "up"', repr(activate),
        )  # fmt: skip
    need("gated_mlp", x=x, w_gate=w_gate, w_up=w_up)
    x, to = as_rows(x), out
    if w_down is not None:
        _check_down(w_down, w_gate)
        to = None
    if activate == "gate":
        h = _gated(x, w_gate, w_up, activation, out=to)
    else:
        h = _up_activated(x, w_gate, w_up, activation, to)
    return h if w_down is None else _matmul(h, w_down.T, out=out)


def _up_activated(x: Any, w_gate: Any, w_up: Any, activation: str, out: Any) -> Any:
    try:
        return _gated(x, w_up, w_gate, activation, out=out)
    except Error as error:
        argument = _TURNED.get(error.argument, "")
        raise renamed(error, "gated_mlp", argument, _TURNED) from error


def _check_down(w_down: Any, w_gate: Any) -> None:
    """Checks w_down against w_gate: matmul would compare it with h, which the caller never sees."""
    found, gate = tuple(w_down.shape), tuple(w_gate.shape)
    if len(gate) == 2 and (len(found) != 2 or found[1] != gate[0]):
        expected = f"[N, {gate[0]}]"
        raise ShapeMismatchError.from_library(
            f"gated_mlp: w_down does not fit w_gate {gate}; expected {expected}, got {found}",
            "gated_mlp", "w_down", expected, str(found),
        )  # fmt: skip


def gated_mlp_quant(
    x: Any, w_gate: Any, w_up: Any, granularity: str = "group128", *, out: Any = None
) -> tuple[Any, Any]:
    """The gated part of a feed-forward layer in 8 bits: ``(q, scale)`` for ``scaled_mm``.

    ``silu(x · w_gateᵀ) ⊙ (x · w_upᵀ) ≈ q · scale``, which ``scaled_mm`` multiplies by ``w_down``.

    x ``[*T, K]`` f32, f16 or bf16, w_gate and w_up ``[F, K]`` -> q ``[*T, F]`` f8e4m3, scale
    ``[*T, ceil(F / 128)]`` f32, one per 128 columns: ``granularity`` is ``"group128"`` (or
    ``"group"``). Scales and codes are those of ``silu_and_mul_quant``, from values that were never
    rounded: one pass on Hopper (``gated_linear_quant_group``). ``out``: both destinations. No
    gradient. Errors: ArgumentError for another granularity; those of the operator. Source:
    DeepSeek-AI, DeepSeek-V3 Technical Report, 2024.
    """
    if granularity not in ("group128", "group"):
        raise ArgumentError.from_library(
            f'gated_mlp_quant: granularity is not offered; expected "group128", got '
            f"{granularity!r}",
            "gated_mlp_quant", "granularity", '"group128"', repr(granularity),
        )  # fmt: skip
    need("gated_mlp_quant", x=x, w_gate=w_gate, w_up=w_up)
    result: tuple[Any, Any] = _gated_codes(as_rows(x), w_gate, w_up, out=out)
    return result


def fused_gated_mlp(
    x: Any, gate_weight: Any, up_weight: Any, activation: str = "silu", *, out: Any = None
) -> Any:
    """``(x · gate_weightᵀ) ⊙ act(x · up_weightᵀ)``: a gated layer that activates the *up* branch.

    The same as in Triton Fused Operators. x ``[*T, K]``, both weights ``[F, K]`` -> ``[*T, F]`` in
    x's dtype; ``activation`` is ``silu`` or ``gelu`` (erf). f32, f16 or bf16 weights of another
    dtype than x are converted to x's: a copy at every call. ``out``: the destination. Otherwise
    dtypes, numerics, gradients and errors are those of ``gated_mlp``; ArgumentError, a ValueError,
    for another activation.
    """
    if activation not in ("silu", "gelu"):
        raise ArgumentError.from_library(
            f'fused_gated_mlp: activation is not offered; expected "silu" or "gelu", got '
            f"{activation!r}",
            "fused_gated_mlp", "activation", '"silu" or "gelu"', repr(activation),
        )  # fmt: skip
    need("fused_gated_mlp", x=x, gate_weight=gate_weight, up_weight=up_weight)
    gate, up = converted(gate_weight, x), converted(up_weight, x)
    return _gated(as_rows(x), up, gate, activation, out=out)


def rms_norm_linear(
    x: Any, rms_w: Any, weight: Any, eps: float = 1e-6, *, rope: Any = None, out: Any = None
) -> Any:
    """Norm and projection: ``y = rms_norm(x, rms_w, eps) · weightᵀ``; ``rope`` rotates q and k.

    x ``[*T, K]`` f32, f16 or bf16, rms_w ``[K]`` in its dtype or f32, weight ``[N, K]`` -> y ``[*T,
    N]``; x is copied if no view joins its leading dimensions. With ``rope``, weight projects q, k
    and v together, and q and k are rotated. ``rope`` is ``(cos, sin, heads, kv_heads)``, optionally
    followed by a style, ``"neox"``, ``"interleaved"`` or ``"interleaved_to_half"``, and then by D.
    Tables are ``[S, D]`` or ``[*T, D]``, or have ``D/2`` columns, as ``apply_rotary_pos_emb`` reads
    them. Columns of y are q's heads of D channels, k's heads, and the rest, which is not rotated:
    v's heads, so that N is ``(heads + 2 · kv_heads) · D`` and determines D. For another N, D is the
    number of the tables' columns unless it is given. A normalised row is rounded to x's dtype; y is
    rotated in f32 and rounded once, in one pass (``linear_rope``). With the style
    ``interleaved_to_half``, or with tables in which token t does not read row t mod S, the rotated
    columns are also rounded before the rotation. Gradients, in torch, of x, rms_w and weight;
    tables have none. Errors: ArgumentTypeError and ArgumentError for an invalid ``rope``;
    ShapeMismatchError where y has fewer columns than q and k, or for other tables; those of
    ``norm_linear`` and ``apply_rotary_pos_emb``.
    """
    need("rms_norm_linear", x=x, rms_w=rms_w, weight=weight)
    if rope is None:
        return _norm_linear(as_rows(x), rms_w, weight, eps, out=out)
    tables, heads, kv_heads, style, width = _read_rope(rope, weight, tuple(x.shape[:-1]))
    if _on_cuda(tables[0]):
        tables = _whole(tables, width)
    of = heads, kv_heads, width, style
    if not asks_for_gradients(x, rms_w, weight, *tables):
        return _rotated(x, rms_w, weight, eps, tables, of, out)
    if out is not None:
        raise grad_error("rms_norm_linear", "x")
    import torch

    from .mlp_rotated_projection import Heads, RotatedProjection

    with torch.no_grad():
        y = _rotated(x, rms_w, weight, eps, tables, of, None)
    return RotatedProjection.apply(y, x, rms_w, weight, *tables, eps, Heads(*of))


def _rotated(
    x: Any, rms_w: Any, weight: Any, eps: float, tables: Any, of: tuple[int, int, int, str],
    out: Any,
) -> Any:  # fmt: skip
    """The projection without a gradient."""
    heads, kv_heads, width, style = of
    rows = _rows_of_tables(tables, tuple(x.shape[:-1]))
    if rows is not None and style != "interleaved_to_half":
        normed, rows = _normed(as_rows(x), rms_w, eps), _whole(rows, width)
        return _linear_rope(normed, weight, *rows, heads + kv_heads, style, out=out)
    _check_tables(tables, x)  # the rotation would refuse them when y is written
    if out is not None:
        places = {"rope[0]": tables[0], "rope[1]": tables[1]}
        check_apart("rms_norm_linear", out, x=x, rms_w=rms_w, weight=weight, **places)
    y = _norm_linear(as_rows(x), rms_w, weight, eps, out=out)
    tokens, turned = tuple(y.shape[:-1]), (heads + kv_heads) * width
    q, k = y[..., : heads * width], y[..., heads * width : turned]
    q, k = q.reshape((*tokens, heads, width)), k.reshape((*tokens, kv_heads, width))  # views
    _rotate(q, k, *(spread(t, (*tokens, t.shape[-1])) for t in tables), style=style)
    return y


def _whole(tables: tuple[Any, ...], width: int) -> tuple[Any, ...]:
    """Tables of D columns: linear_rope learns D from them, so it reads no others."""
    return tuple(t if t.shape[-1] == width else doubled(t) for t in tables)


def _on_cuda(table: Any) -> bool:
    """Where tables of D/2 columns are copied first. apply_rotary_pos_emb reads them as they are on
    GPUs too; tests/test_linear_rope.py on a GPU comes before that is used here."""
    return "cuda" in str(getattr(table, "device", "cpu")).lower()


def _check_tables(tables: tuple[Any, ...], x: Any) -> None:
    types = [name_of(t.dtype) or str(t.dtype) for t in (x, *tables)]
    if types[1] not in (types[0], "f32") or types[2] != types[1]:
        expected, got = f"{types[0]} or f32 for both", f"{types[1]} and {types[2]}"
        raise _not_rope(UnsupportedDtypeError, "has tables of another dtype", expected, got)
    for i, table in enumerate(tables):
        places = [str(getattr(t, "device", "cpu")) for t in (x, table)]
        if places[0] != places[1]:
            raise _not_rope(DeviceError, f"[{i}] is on another device", *places)


def _normed(x: Any, rms_w: Any, eps: float) -> Any:
    try:
        return _rms_norm(x, rms_w, eps)
    except Error as error:
        names = {"weight": "rms_w"}
        raise renamed(error, "rms_norm_linear", names.get(error.argument, ""), names) from error


def _rows_of_tables(tables: tuple[Any, ...], tokens: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """Both as ``[S, D]``, where token t reads row t mod S; None if they repeat in another way."""
    shape = tuple(tables[0].shape)
    lead, missing = shape[:-1], len(tokens) - len(shape) + 1
    while lead and lead[0] == 1:
        lead, missing = lead[1:], missing + 1
    if lead != tokens[missing:] or not all(flattens(t, 1) for t in tables):
        return None
    rows = math.prod(lead)
    return tables[0].reshape((rows, shape[-1])), tables[1].reshape((rows, shape[-1]))


_STYLES = ("neox", "interleaved", "interleaved_to_half")


def _read_rope(
    rope: Any, weight: Any, tokens: tuple[Any, ...]
) -> tuple[tuple[Any, Any], int, int, str, int]:
    """((cos, sin), heads, kv_heads, style, D), all checked."""
    if not isinstance(rope, (tuple, list)) or not 4 <= len(rope) <= 6:
        got = f"{len(rope)} values" if isinstance(rope, (tuple, list)) else type(rope).__name__
        expected = "(cos, sin, heads, kv_heads), then style and D"
        raise _not_rope(ArgumentTypeError, "has another form", expected, got)
    cos, sin, heads, kv_heads, *more = rope
    for name, table in (("cos", cos), ("sin", sin)):
        if not hasattr(table, "shape"):
            got = "None" if table is None else type(table).__name__
            raise _not_rope(ArgumentTypeError, f"has no table as {name}", "an array", got)
    for name, count in (("heads", heads), ("kv_heads", kv_heads)):
        if not isinstance(count, int) or isinstance(count, bool):
            got = type(count).__name__
            raise _not_rope(ArgumentTypeError, f"has no number as {name}", "an integer", got)
        if count < 0:
            raise _not_rope(ArgumentError, f"has a wrong {name}", "0 or more", str(count))
    style = more[0] if more else "neox"
    if style not in _STYLES:
        expected, got = ", ".join(_STYLES), repr(style)[:60]
        raise _not_rope(ArgumentError, "has another style", expected, got)
    shape = tuple(cos.shape)
    if tuple(sin.shape) != shape:
        expected, got = f"sin shaped as cos, {shape}", str(tuple(sin.shape))
        raise _not_rope(ShapeMismatchError, "has tables of two shapes", expected, got)
    fits = zip(reversed(shape[:-1]), reversed(tokens), strict=False)
    if not 1 <= len(shape) <= len(tokens) + 1 or any(n not in (1, want) for n, want in fits):
        expected = f"[S, D] or [*T, D] for tokens {tokens}"
        raise _not_rope(ShapeMismatchError, "has tables of another shape", expected, str(shape))
    width = _head_width(int(shape[-1]), heads, kv_heads, weight, more[1:])
    return (cos, sin), heads, kv_heads, style, width


def _head_width(table: int, heads: int, kv_heads: int, weight: Any, given: list[Any]) -> int:
    """D: as given, else derived from weight's rows, else the tables' columns."""
    if len(weight.shape) != 2:
        return table  # norm_linear refuses it
    rows, width = int(weight.shape[0]), table
    if given:
        width = given[0]
        if width not in (table, 2 * table):
            expected = f"{table} or {2 * table}, of tables of {table} columns"
            raise _not_rope(ShapeMismatchError, "has another D", expected, repr(width)[:60])
    elif rows == (heads + 2 * kv_heads) * 2 * table:
        width = 2 * table
    if (heads + kv_heads) * width > rows:
        expected, got = f"{heads + kv_heads} heads of {width} channels", str(rows)
        raise ShapeMismatchError.from_library(
            f"rms_norm_linear: weight has too few rows; expected {expected} at least, got {got}",
            "rms_norm_linear", "weight", expected, got,
        )  # fmt: skip
    return int(width)


def _not_rope(cls: Any, problem: str, expected: str, got: str) -> Exception:
    error: Exception = cls.from_library(
        f"rms_norm_linear: rope {problem}; expected {expected}, got {got}",
        "rms_norm_linear", "rope", expected, got,
    )  # fmt: skip
    return error


older_forms.update(
    {
        name: joined(name, "x")
        for name in (
            "gated_linear", "gated_linear_quant_group", "linear_rope", "norm_gated_linear",
            "norm_linear",
        )
    }
)  # fmt: skip
