"""``dlblas.fused_rmsnorm_rope``: norm and rotation over a whole projection's width;
``dlblas.mrope``: rotation by three positions per token; ``dlblas.partial_rotary_emb``: heads before
latent attention; and ``dlblas.rope_tables``: the tables of angles that rotations read. Also
adapters for forms of ``apply_rotary_pos_emb``, ``fused_rotary_emb``, ``rope`` and ``qk_norm_rope``
that the operators do not take: tables of other shapes, results by name, ``rotary_dim``.

In: arrays of any package that the operators take. Out: what the operators return; torch.compile
traces the calls. Tables are computed once per model, in f64. Read next: rms_norm_rope/,
python/dlblas/_other_forms.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .._functions import FUNCTIONS
from .._given import integer, is_numpy, no_array
from .._hooks import older_forms
from .._rope_scaling import frequencies, refused
from .._spread import beside, into, spread, table_of
from ..errors import Error, ShapeMismatchError, renamed
from .rope_latent_heads import turned_heads

__all__ = ["fused_rmsnorm_rope", "mrope", "partial_rotary_emb", "rope_tables"]

IN_TORCH: dict[str, Any] = {
    "mrope": {"sections": "int[3]"},
    "rope_tables": [  # scaling is a mapping, which torch has no type for
        {"end_or_positions": "Tensor", "device": "Device?"},
        {"end_or_positions": "SymInt", "device": "Device?", "overload": "end"},
    ],
}

MADE_OF = {
    "partial_rotary_emb": (
        "partial_rotary_heads", "partial_rotary_heads_backward", "partial_rotary_heads_sum",
    )
}  # fmt: skip
CALLED = {"mrope": {"time": "positions", "height": "positions", "width": "positions"}}

_OP = "fused_rmsnorm_rope"
_rms_norm_rope = FUNCTIONS["rms_norm_rope"].call
_mrope_heads = FUNCTIONS["mrope_heads"].call


def fused_rmsnorm_rope(
    x: Any, weight: Any, cos: Any, sin: Any, eps: float = 1e-6, num_heads: int | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """RMS norm over all heads of a token together, then neox rotation of each head.

    ``n = x · rsqrt(mean(x²) + eps) · weight`` over the whole width ``H·D``; then, for each head and
    its pairs ``(i, i + D/2)``, ``y_l = n_l · cos_l − n_h · sin_l``, ``y_h = n_h · cos_l +
    n_l · sin_l``: only the first ``D/2`` columns of the tables are read, for both halves.

    x ``[B, S, H·D]`` (any leading dimensions, any strides), weight ``[H·D]``, cos and sin
    ``[S, D]`` or ``[B, S, D]``, where B may be 1, or these with a 1 before D. H is ``num_heads``
    and D is x's width divided by it; tables may then have D/2 columns. Without ``num_heads``, D is
    the tables' width. x is f32, f16 or bf16; weight and tables have x's dtype or are f32. y has x's
    shape and dtype; it shares no memory with inputs, or is ``out``, which may be x.

    Computes in f32 with one rounding; torch tensors have gradients unless ``out`` is given. Errors:
    ShapeMismatchError for widths that do not fit, and those of ``rms_norm_rope``. Source: Zhang and
    Sennrich, 2019; Su et al., RoFormer, 2021.
    """
    if len(x.shape) < 2:
        raise _wrong("x", "2 dimensions or more", tuple(x.shape))
    *lead, width = x.shape
    tokens, head = tuple(lead), _head_of(int(width), int(cos.shape[-1]), num_heads)
    shape = (*tokens, width // head if head else 0, head)
    args = (
        x.reshape(shape),
        weight.reshape(shape[-2:]) if tuple(weight.shape) == (width,) else weight,
        table_of(cos, "cos", tokens, _OP), table_of(sin, "sin", tokens, _OP), eps,
    )  # fmt: skip
    if out is None:
        return _rms_norm_rope(*args).reshape(x.shape)
    if tuple(out.shape) != tuple(x.shape):
        raise _wrong("out", f"x's shape {tuple(x.shape)}", tuple(out.shape))
    return into(out, shape, lambda to: _rms_norm_rope(*args, out=to), _OP)


def _head_of(width: int, columns: int, num_heads: int | None) -> int:
    """D: the number of the tables' columns, or twice as many if num_heads requires it."""
    heads = width // columns if columns else 0
    fits = heads * columns == width
    if fits and num_heads in (None, heads):
        return columns
    if num_heads is None:
        raise _wrong("x", f"a last dimension of {columns} columns per head, as cos has", width)
    if 0 < width == 2 * columns * num_heads:
        return 2 * columns
    if fits:
        halves = f" or {heads // 2}" if heads and heads % 2 == 0 else ""
        expected = f"{heads}{halves} for x's {width} columns and cos's {columns}"
        raise _wrong("num_heads", expected, num_heads, problem="does not fit")
    if num_heads < 1 or width % num_heads:
        expected = f"a divisor of {width}, x's last dimension"
        raise _wrong("num_heads", expected, num_heads, problem="does not fit")
    each = width // num_heads
    raise _wrong("cos", f"a last dimension of {each} for {num_heads} heads, or half", columns)


def mrope(
    q: Any, k: Any, positions: Any, cos_sin_cache: Any, sections: tuple[int, int, int],
    style: str = "neox", *, rotary_dim: int | None = None, out: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Rotary embeddings with three positions per token (time, height, width), as in Qwen-VL.

    Row ``positions[0, t]`` of the table rotates the first ``sections[0]`` pairs of each head of
    token t, row ``positions[1, t]`` the next ``sections[1]`` and row ``positions[2, t]`` the last
    ``sections[2]``.

    q ``[*T, H, D]``, k ``[*T, Hkv, D]``, positions ``[3, *T]`` i32 or i64, cos_sin_cache ``[P,
    R]`` (cosines, then sines), sections that add up to R/2; ``rotary_dim``, if given, must be R.
    ``out=(q, k)`` writes in place. Dtypes, numerics and errors are those of ``mrope_heads``;
    ShapeMismatchError for other shapes of positions or other sections. Source: Wang et al.,
    Qwen2-VL, 2024.
    """
    if len(positions.shape) < 2 or int(positions.shape[0]) != 3:
        raise _wrong("positions", "[3, *T]", tuple(positions.shape), "mrope")
    _check_rotary_dim("mrope", cos_sin_cache, rotary_dim)
    pairs = int(cos_sin_cache.shape[-1]) // 2
    if len(sections) != 3 or min(sections) < 0 or sum(sections) != pairs:
        raise _wrong("sections", f"three that add up to {pairs}", tuple(sections), "mrope")
    first, second = sections[0], sections[0] + sections[1]
    turned: tuple[Any, Any] = _mrope_heads(
        q, k, positions[0], positions[1], positions[2], cos_sin_cache, first, second,
        style=style, out=out,
    )  # fmt: skip
    return turned


def partial_rotary_emb(
    q: Any, k_pe: Any, kv: Any, cos: Any, sin: Any, *, out: Any = None
) -> tuple[Any, Any]:
    """Prepares the heads of DeepSeek's latent attention in one launch: ``(q_out, kv_out)``.

    The last Dr channels x of q, and k_pe, are rotated: ``y_l = x[0::2] · cos_l − x[1::2] · sin_l``
    and ``y_h = x[1::2] · cos_h + x[0::2] · sin_h``, the halves of y. q_out is q with those channels
    rotated; ``kv_out[..., 0, :, :] = kv[..., :Dn] ‖ y(k_pe)`` for every head, and
    ``kv_out[..., 1, :, :] = kv[..., Dn:] ‖ 0``. q is not written.

    q ``[B, S, H, Dn + Dr]`` f32, f16 or bf16, k_pe ``[B, S, 1, Dr]``, kv ``[B, S, H, Dn + Dv]``,
    cos and sin ``[B, S, Dr]`` or ``[S, Dr]``, optionally with a 1 before Dr or with Dr/2 columns,
    in q's dtype or f32, kv_out ``[B, S, 2, H, Dn + Dr]``. Any leading dimensions may replace B and
    S. Computes in f32 with one rounding; channels that are not rotated keep their bits. If q, k_pe
    or kv requires a gradient, ``dlblas.kernels.partial_rotary_emb.PartialRotaryEmb`` computes it.
    ``out=(q_out, kv_out)`` is written, without gradients. Errors: ShapeMismatchError (Dr above q's
    last dimension, Dv above Dn + Dr), and those of ``partial_rotary_heads``. Source: DeepSeek-V2,
    2024.
    """
    if out is None and any(getattr(x, "requires_grad", False) for x in (q, k_pe, kv)):
        from .rope_partial_rotary import PartialRotaryEmb

        result: tuple[Any, Any] = PartialRotaryEmb.apply(q, k_pe, kv, cos, sin)
        return result
    return turned_heads(q, k_pe, kv, cos, sin, out)


def rotate_by_tables(
    q: Any, k: Any, cos: Any, sin: Any, q_embed: Any = None, k_embed: Any = None, **how: Any
) -> Any:
    """``apply_rotary_pos_emb`` with tables ``[·, D]`` or ``[·, D/2]``, broadcast over tokens."""
    op = "apply_rotary_pos_emb"
    shape = tuple(getattr(q, "shape", ()))
    if shape and hasattr(cos, "shape") and hasattr(sin, "shape"):  # else the operator refuses it
        tokens = shape[:-2]
        cos, sin = table_of(cos, "cos", tokens, op), table_of(sin, "sin", tokens, op)
    return _into(op, (q, k, cos, sin), ("q_embed", "k_embed"), (q_embed, k_embed), how)


def rotate_by_frequencies(
    q: Any, k: Any, position_ids: Any, inv_freq: Any, scaling_factor: float = 1.0,
    out_q: Any = None, out_k: Any = None, **how: Any,
) -> Any:  # fmt: skip
    """``fused_rotary_emb`` with positions ``[1, S]`` for a batch, or results by name."""
    tokens = tuple(getattr(q, "shape", ())[:-2])
    if len(tokens) > 1 and getattr(position_ids, "shape", None) == (1, *tokens[1:]):
        position_ids = spread(position_ids, tokens)
    args = (q, k, position_ids, inv_freq, scaling_factor)
    return _into("fused_rotary_emb", args, ("out_q", "out_k"), (out_q, out_k), how)


def _into(
    op: str, args: tuple[Any, ...], names: tuple[str, str], places: tuple[Any, Any],
    how: dict[str, Any],
) -> Any:  # fmt: skip
    """The call's results, written to the given arrays, which the operator checks."""
    call, (first, second) = FUNCTIONS[op].call, places
    if first is None and second is None:
        return call(*args, **how)
    if first is None or second is None:
        name, x = ("q", args[0]) if first is None else ("k", args[1])
        if not hasattr(x, "shape"):
            call(*args, **how)  # refuses what is no array
            raise no_array(op, name, x)
        places = (beside(x), second) if first is None else (first, beside(x))
    try:
        call(*args, **how, out=places)
    except Error as error:
        raise _by_place(error, op, names) from None
    return places


def _by_place(error: Error, op: str, places: tuple[str, ...]) -> Error:
    """The error, with the names by which the caller knows the results."""
    names = dict(zip(FUNCTIONS[op].results, places, strict=True))
    outs = {f"out[{i}]": place for i, place in enumerate(places)}
    text = re.sub(r"out\[\d\] \((\w+)\)", r"\1", str(error))
    for name, place in {**names, **outs}.items():
        text = re.sub(rf"{re.escape(name)}(?!\w)", place, text)
    again = renamed(error, op, {**names, **outs}.get(error.argument, ""))
    again.args = (text,)
    return again


def _tables_of_others(q: Any, cos: Any, sin: Any, **_: Any) -> bool:
    tokens = tuple(q.shape[:-2])
    return bool(tokens) and any(tuple(t.shape[:-1]) != tokens for t in (cos, sin))


def _positions_of_others(q: Any, position_ids: Any, **_: Any) -> bool:
    tokens = tuple(q.shape[:-2])
    return (1, *tokens[1:]) == tuple(position_ids.shape) != tokens


def _form(op: str, function: Any, differs: Any, *names: str) -> Any:
    """The older form of an operator. ``differs`` tells whether the tensors have shapes that the
    operator does not take; ``names`` are the form's parameters in order, the results last."""
    places, known = names[-2:], {*names, "style", "cast_before_sum", "stream", "out"}

    def of(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given = {**dict(zip(names, args, strict=False)), **named}
        here = any(place in given for place in places)
        if (
            len(given) < len(args) + len(named)
            or not given.keys() <= known
            or (here and given.get("out") is not None)
        ):
            return None  # nothing that is meant
        needed = tuple(given.get(name) for name in names[:4])
        if here and any(value is None for value in needed):
            return FUNCTIONS[op].call(**{k: v for k, v in given.items() if k not in places})
        if not here and not (
            all(len(getattr(x, "shape", ())) for x in needed) and differs(**given)
        ):
            return None  # the operator's own
        return function(**given)

    return of


def _in_place(op: str, differs: Any, spread_of: Any, *names: str) -> Any:
    """The in-place form of an operator, with tables or positions that serve several tokens."""

    def of(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given = {**dict(zip(names, args, strict=False)), **named}
        needed = tuple(given.get(name) for name in names[:4])
        arrays = all(len(getattr(x, "shape", ())) for x in needed)
        if len(given) < len(args) + len(named) or not (arrays and differs(**given)):
            return None
        FUNCTIONS[op].call(**spread_of(given))
        return False  # it returns nothing

    return of


def _spread_tables(given: dict[str, Any]) -> dict[str, Any]:
    tokens, op = tuple(given["q"].shape[:-2]), "apply_rotary_pos_emb_"
    return {**given, **{name: table_of(given[name], name, tokens, op) for name in ("cos", "sin")}}


def _spread_positions(given: dict[str, Any]) -> dict[str, Any]:
    return {**given, "position_ids": spread(given["position_ids"], tuple(given["q"].shape[:-2]))}


def _of_width(op: str) -> Any:
    """Adds ``rotary_dim``, which the tables already imply."""
    names = tuple(p.name for p in FUNCTIONS[op].params)
    at = names.index("cos_sin_cache") if "cos_sin_cache" in names else 0

    def of(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if "rotary_dim" not in named:
            return None
        rest = {**named}
        rotary_dim = rest.pop("rotary_dim")
        table = named.get("cos_sin_cache") if len(args) <= at else args[at]
        if table is not None:  # else it is missing
            _check_rotary_dim(op, table, rotary_dim)
        result = FUNCTIONS[op].call(*args, **rest)
        return False if op.endswith("_") else result  # in place it returns nothing

    return of


def _check_rotary_dim(op: str, table: Any, rotary_dim: int | None) -> None:
    if rotary_dim is None:
        return
    if not hasattr(table, "shape"):
        raise no_array(op, "cos_sin_cache", table)
    wanted = integer(op, "rotary_dim", rotary_dim)
    width = int(table.shape[-1]) if len(table.shape) else 0
    if wanted != width:
        raise ShapeMismatchError.from_library(
            f"{op}: rotary_dim is not the width of cos_sin_cache, cosines and sines; expected "
            f"{width}, got {wanted}",
            op, "rotary_dim", str(width), str(wanted),
        )  # fmt: skip


older_forms.update(
    apply_rotary_pos_emb=_form(
        "apply_rotary_pos_emb", rotate_by_tables, _tables_of_others,
        "q", "k", "cos", "sin", "q_embed", "k_embed",
    ),
    fused_rotary_emb=_form(
        "fused_rotary_emb", rotate_by_frequencies, _positions_of_others,
        "q", "k", "position_ids", "inv_freq", "scaling_factor", "out_q", "out_k",
    ),
    apply_rotary_pos_emb_=_in_place(
        "apply_rotary_pos_emb_", _tables_of_others, _spread_tables, "q", "k", "cos", "sin",
    ),
    fused_rotary_emb_=_in_place(
        "fused_rotary_emb_", _positions_of_others, _spread_positions,
        "q", "k", "position_ids", "inv_freq", "scaling_factor",
    ),
    rope=_of_width("rope"),
    rope_=_of_width("rope_"),
    qk_norm_rope=_of_width("qk_norm_rope"),
    qk_norm_rope_=_of_width("qk_norm_rope_"),
)  # fmt: skip


_WIDEST = 1 << 16  # channels of a head that tables are made for
_LAST_POSITION = (1 << 31) - 1


def rope_tables(
    end_or_positions: Any,
    dim: int,
    theta: float = 1e4,
    scaling: Mapping[str, Any] | None = None,
    *,
    device: Any = None,
) -> tuple[Any, Any]:
    """Cosines and sines of rotary angles, ``(cos, sin)``: f32 ``[T, dim / 2]`` torch tensors.

    NumPy positions ``[T]`` give NumPy tables.

    ``angle[t, i] = position[t] · frequency[i]``, ``frequency[i] = theta^(−2i / dim)``, in f64,
    rounded once: the values of Llama's precompute_freqs_cis, without complex numbers. Positions are
    ``0 … end − 1`` or a tensor ``[T]``; the tables are then on its device. ``cat((cos, sin), -1)``
    is rope's cos_sin_cache; ``cat((cos, cos), -1)`` is the cos of apply_rotary_pos_emb.

    scaling is a model's ``rope_scaling``, computed as in transformers: ``rope_type`` (or
    ``type``), ``factor`` and, depending on the type:

    - ``linear``: all frequencies are divided by factor.
    - ``llama3``: frequencies with wavelengths above
      ``original_max_position_embeddings / low_freq_factor`` are divided by factor, those below
      ``… / high_freq_factor`` are kept, and those between are blended.
    - ``yarn``: pairs that turn more than ``beta_fast`` (32) times in
      ``original_max_position_embeddings`` keep their frequency, those that turn fewer than
      ``beta_slow`` (1) times have it divided by factor, and those between are blended, with both
      bounds rounded outwards to whole pairs unless ``truncate`` is False. Both tables are
      multiplied by ``attention_factor``. If absent, it is ``m(mscale) / m(mscale_all_dim)`` with
      ``m(x) = 0.1 · x · ln(factor) + 1``, or ``m(1)`` if not both are given.

    Errors: ArgumentError for an odd dim or one above 65,536, a negative end or one above 2³¹ − 1,
    complex positions, an unknown rope_type, a number that is
    missing or not positive, a ``rope_theta`` other than theta, and any key not named here.
    Source: Llama 3.1, 2024; Peng et al., YaRN, 2023.
    """
    if not 0 <= dim <= _WIDEST or dim % 2:
        raise refused("dim", f"an even number from 0 to {_WIDEST}", dim)
    if not theta > 0:
        raise refused("theta", "a positive number", theta)
    if _is_numpy(end_or_positions):
        return _numpy_tables(end_or_positions, dim, theta, scaling, device)
    import torch

    if isinstance(end_or_positions, torch.Tensor):
        positions = end_or_positions
        if len(positions.shape) != 1:
            shape = tuple(positions.shape)
            raise _wrong("end_or_positions", "a number or a tensor [T]", shape, "rope_tables")
        if positions.is_complex():
            raise refused("end_or_positions", "real positions", positions.dtype)
    else:
        end = _end(end_or_positions, torch.SymInt)
        if not 0 <= end <= _LAST_POSITION:
            raise refused("end_or_positions", f"0 to {_LAST_POSITION}, or a tensor [T]", end)
        positions = torch.arange(end, device=device)
    turns, factor = frequencies(dim, float(theta), scaling)
    each = torch.tensor(turns, dtype=torch.float64, device=positions.device)
    angles = positions.to(torch.float64)[:, None] * each
    return (angles.cos() * factor).to(torch.float32), (angles.sin() * factor).to(torch.float32)


def _is_numpy(positions: Any) -> bool:
    """Whether these are positions in a NumPy array; NumPy's numbers are an end."""
    return is_numpy(positions) and len(getattr(positions, "shape", ())) > 0


def _numpy_tables(
    positions: Any, dim: int, theta: float, scaling: Mapping[str, Any] | None, device: Any
) -> tuple[Any, Any]:
    import numpy as np

    if len(positions.shape) != 1:
        raise _wrong(
            "end_or_positions", "a number or positions [T]", tuple(positions.shape), "rope_tables"
        )
    if device is not None:
        raise refused("device", "None with NumPy positions", device)
    if np.iscomplexobj(positions):
        raise refused("end_or_positions", "real positions", positions.dtype)
    turns, factor = frequencies(dim, float(theta), scaling)
    angles = positions.astype(np.float64)[:, None] * np.array(turns, np.float64)
    return (np.cos(angles) * factor).astype("f"), (np.sin(angles) * factor).astype("f")


def _end(value: Any, symbol: type) -> Any:
    if isinstance(value, (int, symbol)):
        return value
    return integer("rope_tables", "end_or_positions", value, "an integer or a torch tensor [T]")


def _wrong(
    argument: str, expected: str, got: Any, op: str = _OP, problem: str = "has another shape"
) -> Error:
    return ShapeMismatchError.from_library(
        f"{op}: {argument} {problem}; expected {expected}, got {got}",
        op, argument, expected, str(got),
    )  # fmt: skip
