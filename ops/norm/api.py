"""``dlblas.group_norm``, ``dlblas.layernorm_gated``: norms over groups of channels; and
``dlblas.rms_norm_quant``, ``dlblas.add_rms_norm_quant``: norms with 8-bit results, selected by the
granularity of their scales. Also adapters for calls of ``rms_norm`` and ``add_rms_norm`` in the
code of DLBlas users.

In: arrays of any package that the operators take. Out: what the operators of this family return;
nothing is computed here, and torch.compile traces it. Read next: group_norm_rows/,
layernorm_gated_rows/, rms_norm_quant_token/, python/dlblas/_other_forms.py.
"""

from __future__ import annotations

from typing import Any

from .._functions import FUNCTIONS
from .._granularity import GROUPS, check_codes, check_granularity, with_scale
from .._hooks import older_forms
from .._overlap import check_apart
from .._spread import beside, into
from ..errors import ArgumentError, ArgumentTypeError, Error, ShapeMismatchError, renamed

__all__ = ["add_rms_norm_quant", "group_norm", "layernorm_gated", "rms_norm_quant"]

_group_norm = FUNCTIONS["group_norm_rows"].call
_layernorm_gated = FUNCTIONS["layernorm_gated_rows"].call
_norm, _add_norm = FUNCTIONS["rms_norm"].call, FUNCTIONS["add_rms_norm"].call
_quantize_tensor = FUNCTIONS["quantize_tensor"].call
_token = FUNCTIONS["rms_norm_quant_token"].call
_group = FUNCTIONS["rms_norm_quant_group"].call
_static = FUNCTIONS["rms_norm_quant_static"].call
_add_token = FUNCTIONS["add_rms_norm_quant_token"].call
_add_group = FUNCTIONS["add_rms_norm_quant_group"].call
_add_static = FUNCTIONS["add_rms_norm_quant_static"].call


def rms_norm_quant(
    x: Any,
    weight: Any,
    eps: float = 1e-6,
    *,
    weight_offset: float = 0.0,
    granularity: str = "token",
    scale: Any = None,
    out: Any = None,
) -> tuple[Any, Any]:
    """Normalises and quantises to f8e4m3 in one pass: ``(q, scale)`` with ``y ≈ q · scale``.

    ``y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset)`` in f32, never rounded to x's
    dtype; ``q = y / scale`` rounded to nearest even and saturated at 448.

    x ``[*T, C]`` is f32, f16 or bf16, weight ``[C]`` x's dtype or f32; q has x's shape; scale is
    f32. ``granularity`` selects the elements that share a scale, and with them scale's shape:

    - ``"token"``, one row: ``scale = max |y| / 448``, ``[*T, 1]`` (``rms_norm_quant_token``);
    - ``"group32"``, ``"group64"``, ``"group128"``, neighbouring columns; the last group may have
      fewer: ``[*T, ceil(C / group)]`` (``rms_norm_quant_group``);
    - ``"tensor"``, all of x, with a calibrated ``scale``, a tensor of shape ``[]`` or a number,
      which is returned unchanged (``rms_norm_quant_static``). Without a scale, one is found over
      all rows in a second pass, and y is rounded to x's dtype between: ``rms_norm``, then
      ``quantize(y, "tensor")``.

    ``out=(q, scale)`` is written; a given scale is copied there. Elements that are all zero have
    the scale 1. No gradient. Errors: ArgumentError for an unknown granularity, or for a scale with
    any other granularity than ``"tensor"``; those of the operators. Source:
    Zhang and Sennrich, 2019; Micikevicius et al., FP8 Formats for Deep Learning, 2022.
    """
    check_granularity("rms_norm_quant", granularity, scale)
    if granularity == "tensor" and scale is None:
        places = check_codes("rms_norm_quant", out, ("q", "scale"), x, x.shape, "f8e4m3")
        y = _norm(x, weight, eps, weight_offset=weight_offset)
        made: tuple[Any, Any] = _quantize_tensor(y, out=places)
        return made if out is None else out
    if granularity == "tensor":
        return with_scale(
            "rms_norm_quant",
            lambda to: _static(x, weight, scale, eps, weight_offset=weight_offset, out=to),
            scale, out,
        )  # fmt: skip
    if granularity == "token":
        return _token(x, weight, eps, weight_offset=weight_offset, out=out)
    group = GROUPS[granularity]
    return _group(x, weight, eps, weight_offset=weight_offset, group=group, out=out)


def add_rms_norm_quant(
    x: Any,
    weight: Any,
    residual: Any,
    eps: float = 1e-6,
    *,
    weight_offset: float = 0.0,
    granularity: str = "token",
    scale: Any = None,
    out: Any = None,
) -> tuple[Any, Any, Any]:
    """Adds a residual, normalises and quantises the sum: ``(q, scale, residual_out)``.

    ``h = round(x + residual)``, in x's dtype, is returned as residual_out and normalised; residual
    ``[*T, C]`` has x's dtype. Shapes, granularities and errors are those of ``rms_norm_quant``;
    ``out=(q, scale, residual_out)`` is written. ``add_rms_norm_quant_token_`` and the others work
    in place (residual_out over residual).
    """
    check_granularity("add_rms_norm_quant", granularity, scale)
    if granularity == "tensor" and scale is None:
        names = ("q", "scale", "residual_out")
        places = check_codes("add_rms_norm_quant", out, names, x, x.shape, "f8e4m3")
        if places is not None:
            for place in places:
                check_apart("add_rms_norm_quant", place, residual=residual, residual_out=out[2])
        to = None if out is None else (beside(x), out[2])
        y, hidden = _add_norm(x, weight, residual, eps, weight_offset=weight_offset, out=to)
        q, found = _quantize_tensor(y, out=places)
        return (q, found, hidden) if out is None else out
    if granularity == "tensor":
        return with_scale(
            "add_rms_norm_quant",
            lambda to: _add_static(
                x, weight, residual, scale, eps, weight_offset=weight_offset, out=to
            ),
            scale, out, ("q", "scale", "residual_out"),
        )  # fmt: skip
    if granularity == "token":
        return _add_token(x, weight, residual, eps, weight_offset=weight_offset, out=out)
    group = GROUPS[granularity]
    return _add_group(x, weight, residual, eps, weight_offset=weight_offset, group=group, out=out)


def group_norm(
    x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    activation: str | None = None, *, out: Any = None,
) -> Any:  # fmt: skip
    """Group norm over channels with an optional silu, in one launch without intermediates.

    ``y = (x − mean) · rsqrt(var + eps) · weight + bias`` with mean and biased variance over the
    channels of a group and all their positions; ``activation="silu"`` stores ``y · σ(y)``.

    x ``[B, C, *spatial]`` f32, f16 or bf16 in that memory order (any other, such as channels_last,
    is copied first), weight and bias ``[C]`` in x's dtype or f32; y has x's shape and dtype.
    ``out``, if given, is written. Computes in f32 with one rounding; torch tensors have gradients
    unless ``out`` is given. Errors: ShapeMismatchError if groups do not divide C or a vector has
    another length, ArgumentError for groups below 1, and those of ``group_norm_rows``. Source: Wu
    and He, 2018.
    """
    op, shape = "group_norm", tuple(x.shape)
    if len(shape) < 2:
        raise _mismatch(op, "x", "[B, C, *spatial]", shape)
    channels = int(shape[1])
    _check_count(op, "groups", groups)
    if groups < 1:
        raise ArgumentError.from_library(
            f"{op}: groups is out of range; expected 1 or more, got {groups}",
            op, "groups", "1 or more", str(groups),
        )  # fmt: skip
    if channels % groups:
        raise _mismatch(op, "groups", f"a divisor of {channels}, x's channels", groups)
    places = 1
    for size in shape[2:]:
        places *= int(size)

    def of_groups(vector: Any, name: str) -> Any:
        if vector is None:
            return None
        if tuple(vector.shape) != (channels,):
            raise _mismatch(op, name, f"[{channels}], one per channel", tuple(vector.shape))
        of_rows = vector.reshape((groups, channels // groups))
        return of_rows if places else of_rows[:, :0]  # rows without columns have no vectors

    wide = (int(shape[0]), groups, channels // groups * places)
    args = (
        x.reshape(wide), of_groups(weight, "weight"), of_groups(bias, "bias"), groups, places or 1,
        eps, activation or "",
    )  # fmt: skip
    if out is None:
        return _group_norm(*args).reshape(shape)
    _check_out(op, out, shape)
    return into(out, wide, lambda to: _group_norm(*args, out=to), op)


def layernorm_gated(
    x: Any, weight: Any, bias: Any = None, z: Any = None, eps: float = 1e-6,
    group_size: int | None = None, norm_before_gate: bool = True, is_rms_norm: bool = False, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """Layer norm or RMS norm over groups of channels with a silu gate, as in Mamba-2.

    ``y = n(x) · silu(z)``, or ``n(x · silu(z))`` without norm_before_gate; without z, ``n(x)``. n
    takes its statistics over ``group_size`` neighbouring channels (None: over all); with
    is_rms_norm it is an RMS norm.

    x and z ``[*T, C]`` f32, f16 or bf16, weight and bias ``[C]`` in x's dtype or f32; y has x's
    shape and dtype; ``out``, if given, is written. Computes in f32, the gate included, with one
    rounding; torch tensors have gradients unless ``out`` is given. Errors: ShapeMismatchError if
    group_size does not divide C, ArgumentError for a group_size below 1, and those of
    ``layernorm_gated_rows``. Source: Dao and Gu, 2024.
    """
    op, shape = "layernorm_gated", tuple(x.shape)
    if len(shape) < 1:
        raise _mismatch(op, "x", "[*T, C]", shape)
    width = int(shape[-1])
    size = width if group_size is None else group_size
    _check_count(op, "group_size", size)
    if size < 1 and width:
        raise ArgumentError.from_library(
            f"{op}: group_size is out of range; expected 1 or more, got {size}",
            op, "group_size", "1 or more", str(size),
        )  # fmt: skip
    if size and width % size:
        raise _mismatch(op, "group_size", f"a divisor of {width}, x's last dimension", size)
    rows = (*shape[:-1], width // size if size else 1, size)

    def of_channels(vector: Any, name: str) -> Any:
        if vector is None:
            return None
        if tuple(vector.shape) != (width,):
            raise _mismatch(op, name, f"[{width}], one per channel", tuple(vector.shape))
        return vector.reshape(rows[-2:])

    if z is not None and tuple(z.shape) != shape:
        raise _mismatch(op, "z", f"x's shape {shape}", tuple(z.shape))
    args = (
        x.reshape(rows), of_channels(weight, "weight"), of_channels(bias, "bias"),
        None if z is None else z.reshape(rows), rows[-2], eps, norm_before_gate, is_rms_norm,
    )  # fmt: skip
    if out is None:
        return _layernorm_gated(*args).reshape(shape)
    _check_out(op, out, shape)
    return into(out, rows, lambda to: _layernorm_gated(*args, out=to), op)


def _check_count(op: str, argument: str, count: Any) -> None:
    """Refuses a bool: Python counts it as an int, but operators take no bool as a size."""
    if isinstance(count, bool):
        expected, got = "an integer", "bool"
        raise ArgumentTypeError.from_library(
            f"{op}: {argument} is of another type; expected {expected}, got {got}",
            op, argument, expected, got,
        )  # fmt: skip


def _check_out(op: str, out: Any, shape: tuple[int, ...]) -> None:
    if tuple(out.shape) != shape:
        raise _mismatch(op, "out", f"x's shape {shape}", tuple(out.shape))


def _mismatch(op: str, argument: str, expected: str, got: Any) -> ShapeMismatchError:
    return ShapeMismatchError.from_library(
        f"{op}: {argument} does not fit; expected {expected}, got {got}",
        op, argument, expected, str(got),
    )  # fmt: skip


_OF_RMS_NORM = {
    "x", "weight", "eps", "weight_offset", "cast_before_weight", "residual", "out", "stream",
}  # fmt: skip


def _rms_norm(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Accepts ``hidden_states`` for ``x``."""
    if args or "x" in named or "hidden_states" not in named:
        return None
    rest = {**named}
    return FUNCTIONS["rms_norm"].call(rest.pop("hidden_states"), **rest)


def _add_rms_norm(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Accepts ``hidden_states`` for ``x``; without a residual the result is y alone."""
    given = {**dict(zip(("x", "weight", "residual", "eps"), args, strict=False)), **named}
    is_old = "hidden_states" in given and "x" not in given
    if is_old:
        given["x"] = given.pop("hidden_states")
    alone = given.get("residual") is None and "x" in given and "weight" in given
    if alone and given.keys() <= _OF_RMS_NORM:
        given.pop("residual", None)
        try:
            return FUNCTIONS["rms_norm"].call(**given)
        except Error as error:  # of the operator that the user has called
            raise renamed(error, "add_rms_norm") from None
    return FUNCTIONS["add_rms_norm"].call(**given) if is_old else None


older_forms.update(rms_norm=_rms_norm, add_rms_norm=_add_rms_norm)
