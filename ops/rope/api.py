"""``dlblas.fused_rmsnorm_rope``: the norm and rotation of a whole projection's width;
``dlblas.mrope``: rotation by three positions per token; ``dlblas.partial_rotary_emb``: heads before
latent attention; and ``dlblas.rope_tables``: the tables of angles that rotations read. Behind them
what calls of ``apply_rotary_pos_emb``, ``fused_rotary_emb``, ``rope`` and ``qk_norm_rope`` mean
that the operators do not take: tables of other shapes, results by their names, ``rotary_dim``.

In: arrays of any package that the operators take. Out: what ``rms_norm_rope`` returns, which
torch.compile follows; tables are made once a model, in f64. Read next: rms_norm_rope/,
python/dlblas/_other_forms.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .._functions import FUNCTIONS
from .._hooks import older_forms
from .._latent_heads import turned_heads
from .._spread import doubled, into, spread, table_of
from ..errors import ArgumentError, ShapeMismatchError

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
    """RMS norm over all heads of a token together, then rotation of each, neox.

    ``n = x · rsqrt(mean(x²) + eps) · weight`` over the whole width ``H·D``; then, of each head and
    its pairs ``(i, i + D/2)``, ``y_l = n_l · cos_l − n_h · sin_l``, ``y_h = n_h · cos_l +
    n_l · sin_l``: only the first ``D/2`` columns of the tables are read, for both halves.

    x ``[B, S, H·D]`` (any leading dimensions, any strides), weight ``[H·D]``, cos and sin
    ``[S, D]``, ``[B, S, D]`` or ``[B, S, 1, D]``, where B may be 1. D is the tables' width, H what
    it leaves of x's; ``num_heads`` is checked where it is given. x is f32, f16 or bf16; weight and
    tables have x's dtype or are f32. y is shaped as x and has its dtype; it shares no memory, or is
    ``out``, which may be x.

    In f32, one rounding; torch's tensors have gradients, without ``out``. Errors:
    ShapeMismatchError for widths that do not fit, and those of ``rms_norm_rope``. Source: Zhang and
    Sennrich, 2019; Su et al., RoFormer, 2021.
    """
    if len(x.shape) < 2:
        raise _wrong("x", "2 dimensions or more", tuple(x.shape))
    width, head = int(x.shape[-1]), int(cos.shape[-1])
    heads = width // head if head else 0
    if heads * head != width or (num_heads is not None and num_heads != heads):
        told = f" of {num_heads} heads" if num_heads is not None else ""
        raise _wrong("x", f"a last dimension{told} of {head} columns each, as cos has", width)
    tokens = tuple(x.shape[:-1])
    shape = (*tokens, heads, head)
    args = (
        x.reshape(shape),
        weight.reshape((heads, head)) if tuple(weight.shape) == (width,) else weight,
        table_of(cos, "cos", tokens, _OP), table_of(sin, "sin", tokens, _OP), eps,
    )  # fmt: skip
    if out is None:
        return _rms_norm_rope(*args).reshape(x.shape)
    if tuple(out.shape) != tuple(x.shape):
        raise _wrong("out", f"x's shape {tuple(x.shape)}", tuple(out.shape))
    return into(out, shape, lambda to: _rms_norm_rope(*args, out=to))


def mrope(
    q: Any, k: Any, positions: Any, cos_sin_cache: Any, sections: tuple[int, int, int],
    style: str = "neox", *, rotary_dim: int | None = None, out: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Rotary embeddings with three positions per token, time, height and width: Qwen-VL's.

    The first ``sections[0]`` pairs of each head turn by row ``positions[0, t]`` of the table, the
    next ``sections[1]`` by row ``positions[1, t]``, the last ``sections[2]`` by
    ``positions[2, t]``.

    q ``[T, H, D]``, k ``[T, Hkv, D]``, positions ``[3, T]`` i32 or i64, cos_sin_cache ``[P, R]``
    (cosines, then sines), sections that add up to R/2; ``rotary_dim``, where it is given, is R.
    ``out=(q, k)`` writes in place. Dtypes, numerics and errors are ``mrope_heads``'s;
    ShapeMismatchError for other positions or sections.
    Source: Wang et al., Qwen2-VL, 2024.
    """
    if len(positions.shape) != 2 or int(positions.shape[0]) != 3:
        raise _wrong("positions", "[3, T]", tuple(positions.shape), "mrope")
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
    """Heads of DeepSeek's latent attention before it: ``(q_out, kv_out)``, one launch.

    Of the last Dr channels x of q and of k_pe, ``y_l = x[0::2] · cos_l − x[1::2] · sin_l`` and
    ``y_h = x[1::2] · cos_h + x[0::2] · sin_h``. q_out is q with them turned;
    ``kv_out[..., 0, :, :] = kv[..., :Dn] ‖ y(k_pe)`` for every head, and ``kv_out[..., 1, :, :] =
    kv[..., Dn:] ‖ 0``. q is not written.

    q ``[B, S, H, Dn + Dr]`` f32, f16 or bf16, k_pe ``[B, S, 1, Dr]``, kv ``[B, S, H, Dn + Dv]``,
    cos and sin ``[B, S, Dr]`` (or ``[S, Dr]``) in q's dtype or f32, kv_out ``[B, S, 2, H, Dn +
    Dr]``. Any leading dimensions in the place of B and S. In f32, one rounding; what is not turned
    keeps its bits. Gradients of q, k_pe and kv:
    ``dlblas.kernels.partial_rotary_emb.PartialRotaryEmb``, which this calls where one is asked for.
    ``out=(q_out, kv_out)`` is written, without gradients. Errors: ShapeMismatchError (Dr above q's
    last dimension, Dv above Dn + Dr), and those of ``partial_rotary_heads``. Source: DeepSeek-V2,
    2024.
    """
    if out is None and any(getattr(x, "requires_grad", False) for x in (q, k_pe, kv)):
        from .._partial_rotary import PartialRotaryEmb

        result: tuple[Any, Any] = PartialRotaryEmb.apply(q, k_pe, kv, cos, sin)
        return result
    return turned_heads(q, k_pe, kv, cos, sin, out)


def _is_half(table: Any, width: int) -> bool:
    return 0 < width == 2 * int(table.shape[-1])


def _whole(table: Any, width: int) -> Any:
    """A table of D/2 columns, which both channels of a pair read, as one of D."""
    return doubled(table) if _is_half(table, width) else table


def rotate_by_tables(
    q: Any, k: Any, cos: Any, sin: Any, q_embed: Any = None, k_embed: Any = None, **how: Any
) -> Any:
    """``apply_rotary_pos_emb`` with tables ``[·, D]`` or ``[·, D/2]``, of all tokens or fewer."""
    op, tokens, width = "apply_rotary_pos_emb", tuple(q.shape[:-2]), int(q.shape[-1])
    cos, sin = (
        table_of(_whole(t, width), name, tokens, op) for name, t in (("cos", cos), ("sin", sin))
    )
    return _into(FUNCTIONS[op].call, (q, k, cos, sin), q_embed, k_embed, how)


def rotate_by_frequencies(
    q: Any, k: Any, position_ids: Any, inv_freq: Any, scaling_factor: float = 1.0,
    out_q: Any = None, out_k: Any = None, **how: Any,
) -> Any:  # fmt: skip
    """``fused_rotary_emb`` with positions ``[1, S]`` of a batch, or results by their names."""
    op, tokens = "fused_rotary_emb", tuple(q.shape[:-2])
    if len(tokens) > 1 and tuple(position_ids.shape) == (1, *tokens[1:]):
        position_ids = spread(position_ids, tokens)
    args = (q, k, position_ids, inv_freq, scaling_factor)
    return _into(FUNCTIONS[op].call, args, out_q, out_k, how)


def _into(call: Any, args: tuple[Any, ...], q_out: Any, k_out: Any, how: dict[str, Any]) -> Any:
    """The call's results, in the places that are given."""
    if q_out is not None and k_out is not None:
        call(*args, **how, out=(q_out, k_out))
        return q_out, k_out
    made = call(*args, **how)
    if q_out is None and k_out is None:
        return made
    return tuple(_placed(m, place) for m, place in zip(made, (q_out, k_out), strict=True))


def _placed(made: Any, place: Any) -> Any:
    if place is None:
        return made
    place[...] = made
    return place


def _tables_of_others(q: Any, cos: Any, sin: Any, **_: Any) -> bool:
    tokens, width = tuple(q.shape[:-2]), int(q.shape[-1])
    differ = (tuple(t.shape[:-1]) != tokens or _is_half(t, width) for t in (cos, sin))
    return len(q.shape) > 2 and any(differ)


def _positions_of_others(q: Any, position_ids: Any, **_: Any) -> bool:
    tokens = tuple(q.shape[:-2])
    return (1, *tokens[1:]) == tuple(position_ids.shape) != tokens


def _form(function: Any, differs: Any, *names: str) -> Any:
    """The older form of an operator. ``differs``: do the tensors have shapes that it does not take?
    names are its parameters by place, those of results last."""
    places, known = names[-2:], {*names, "style", "cast_before_sum", "stream", "out"}

    def of(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given = {**dict(zip(names, args, strict=False)), **named}
        here = any(place in given for place in places)
        if (
            len(given) < len(args) + len(named)
            or not given.keys() <= known
            or not all(len(getattr(given.get(name), "shape", ())) for name in names[:4])
            or (here and "out" in given)
            or not (here or differs(**given))
        ):
            return None  # the operator's own, or nothing that is meant
        return function(**given)

    return of


def _of_width(op: str) -> Any:
    """``rotary_dim`` of an operator whose tables say it."""
    names = tuple(p.name for p in FUNCTIONS[op].params)
    at = names.index("cos_sin_cache") if "cos_sin_cache" in names else 0

    def of(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        table = named.get("cos_sin_cache") if len(args) <= at else args[at]
        if "rotary_dim" not in named or not hasattr(table, "shape"):
            return None
        rest = {**named}
        _check_rotary_dim(op, table, rest.pop("rotary_dim"))
        return FUNCTIONS[op].call(*args, **rest)

    return of


def _check_rotary_dim(op: str, table: Any, rotary_dim: int | None) -> None:
    width = int(table.shape[-1]) if len(table.shape) else 0
    if rotary_dim is not None and rotary_dim != width:
        raise ShapeMismatchError.from_library(
            f"{op}: rotary_dim is not the width of cos_sin_cache, cosines and sines; expected "
            f"{width}, got {rotary_dim}",
            op, "rotary_dim", str(width), str(rotary_dim),
        )  # fmt: skip


older_forms.update(
    apply_rotary_pos_emb=_form(
        rotate_by_tables, _tables_of_others, "q", "k", "cos", "sin", "q_embed", "k_embed"
    ),
    fused_rotary_emb=_form(
        rotate_by_frequencies, _positions_of_others,
        "q", "k", "position_ids", "inv_freq", "scaling_factor", "out_q", "out_k",
    ),
    rope=_of_width("rope"),
    qk_norm_rope=_of_width("qk_norm_rope"),
)  # fmt: skip


def rope_tables(
    end_or_positions: Any,
    dim: int,
    theta: float = 1e4,
    scaling: Mapping[str, Any] | None = None,
    *,
    device: Any = None,
) -> tuple[Any, Any]:
    """Cosines and sines of rotary angles, ``(cos, sin)``: f32 ``[T, dim / 2]`` torch tensors.

    ``angle[t, i] = position[t] · frequency[i]``, ``frequency[i] = theta^(−2i / dim)``, in f64,
    rounded once: what Llama's precompute_freqs_cis gives, without complex numbers. Positions are
    ``0 … end − 1`` or a tensor ``[T]``, on whose device the tables are. ``cat((cos, sin), -1)`` is
    rope's cos_sin_cache; ``cat((cos, cos), -1)`` the cos of apply_rotary_pos_emb.

    scaling is a model's ``rope_scaling``: ``rope_type`` (or ``type``), ``factor`` and others.

    - ``linear``: frequencies divided by factor.
    - ``llama3``: those of wavelengths above ``original_max_position_embeddings / low_freq_factor``
      divided, those below ``… / high_freq_factor`` kept, blended between.
    - ``yarn``: pairs that turn more than ``beta_fast`` (32) times in
      ``original_max_position_embeddings`` kept, fewer than ``beta_slow`` (1) divided, blended
      between; both tables times ``attention_factor``, if absent ``0.1 · ln(factor) + 1``.

    Errors: ArgumentError for an odd dim, a negative end, another rope_type, a number that is
    missing or not positive. Source: Llama 3.1, 2024; Peng et al., YaRN, 2023.
    """
    if dim < 0 or dim % 2:
        raise _refused("dim", "an even number, 0 or more", dim)
    if not theta > 0:
        raise _refused("theta", "a positive number", theta)
    import torch

    if isinstance(end_or_positions, (int, torch.SymInt)):
        if end_or_positions < 0:
            raise _refused("end_or_positions", "0 or more, or a tensor [T]", end_or_positions)
        positions = torch.arange(end_or_positions, device=device)
    else:
        positions = end_or_positions
        if len(positions.shape) != 1:
            shape = tuple(positions.shape)
            raise _wrong("end_or_positions", "a number or a tensor [T]", shape, "rope_tables")
    frequencies, factor = _frequencies(dim, float(theta), scaling)
    turns = torch.tensor(frequencies, dtype=torch.float64, device=positions.device)
    angles = positions.to(torch.float64)[:, None] * turns
    return (angles.cos() * factor).to(torch.float32), (angles.sin() * factor).to(torch.float32)


def _frequencies(
    dim: int, theta: float, scaling: Mapping[str, Any] | None
) -> tuple[list[float], float]:
    """Of each pair, in radians a position; and what both tables are multiplied by."""
    plain = [theta ** (-2 * i / dim) for i in range(dim // 2)]
    if scaling is None:
        return plain, 1.0
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        factor = _number(scaling, "factor")
        return [f / factor for f in plain], 1.0
    if kind == "llama3":
        return _llama3(plain, scaling), 1.0
    if kind == "yarn":
        return _yarn(plain, dim, theta, scaling)
    raise _refused("scaling", "a rope_type of linear, llama3 or yarn", repr(kind))


def _llama3(plain: list[float], scaling: Mapping[str, Any]) -> list[float]:
    factor, seen = _number(scaling, "factor"), _number(scaling, "original_max_position_embeddings")
    low, high = _number(scaling, "low_freq_factor"), _number(scaling, "high_freq_factor")
    if not high > low:
        raise _refused("scaling", "a high_freq_factor above low_freq_factor", high)

    def blended(f: float) -> float:
        turns = seen * f / (2 * math.pi)
        kept = min(1.0, max(0.0, (turns - low) / (high - low)))
        return kept * f + (1 - kept) * f / factor

    return [blended(f) for f in plain]


def _yarn(
    plain: list[float], dim: int, theta: float, scaling: Mapping[str, Any]
) -> tuple[list[float], float]:
    factor, seen = _number(scaling, "factor"), _number(scaling, "original_max_position_embeddings")
    fast, slow = _number(scaling, "beta_fast", 32.0), _number(scaling, "beta_slow", 1.0)
    if theta == 1:
        raise _refused("theta", "another number than 1 with yarn", theta)

    def pair_of(turns: float) -> float:
        """The pair, a fraction, that turns so often in the positions a model has seen."""
        return dim * math.log(seen / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first, last = max(math.floor(pair_of(fast)), 0), min(math.ceil(pair_of(slow)), dim - 1)
    width = max(last - first, 0.001)

    def blended(i: int, f: float) -> float:
        divided = min(1.0, max(0.0, (i - first) / width))
        return (1 - divided) * f + divided * f / factor

    attention = 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    return (
        [blended(i, f) for i, f in enumerate(plain)],
        _number(scaling, "attention_factor", attention),
    )


def _number(scaling: Mapping[str, Any], name: str, absent: float | None = None) -> float:
    value = scaling.get(name)
    if value is None and absent is not None:
        return absent
    if isinstance(value, (int, float)) and value > 0:
        return float(value)
    raise _refused("scaling", f"a positive {name}", repr(value))


def _refused(argument: str, expected: str, got: Any) -> ArgumentError:
    return ArgumentError.from_library(
        f"rope_tables: {argument} is not possible; expected {expected}, got {got}",
        "rope_tables", argument, expected, str(got),
    )  # fmt: skip


def _wrong(argument: str, expected: str, got: Any, op: str = _OP) -> ShapeMismatchError:
    return ShapeMismatchError.from_library(
        f"{op}: {argument} has another shape; expected {expected}, got {got}",
        op, argument, expected, str(got),
    )  # fmt: skip
