"""``dlblas.quantize`` and ``dlblas.dequantize``: 8-bit scales, their granularity selected by name;
and ``quantize_mx``, ``dequantize_mx``: microscaling formats, selected by name.

In: arrays of any package that the operators take. Out: what the operators of this family return;
nothing is computed here, and torch.compile traces it. For a scale layout that the operators do not
create, this file allocates the memory and passes it as ``out=``. Read next: quantize_token/,
quantize_group/, quantize_tensor/, dequantize_group/.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

from .._array import Array
from .._dtypes import name_of
from .._empty import bytes_of, empty
from .._functions import FUNCTIONS
from .._given import asks_for_gradients, check_place, flattens, grad_error, need_arrays
from .._granularity import GROUPS, as_placed, number_beside, with_scale
from .._overlap import check_apart
from .._results import check_shape, places_of
from .._spread import into, spread
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    ShapeMismatchError,
    UnsupportedDtypeError,
)

__all__ = ["dequantize", "dequantize_mx", "quantize", "quantize_mx"]

IN_TORCH = {"quantize_mx": {"->": "Tensor[]"}}

_OP = "quantize"
_BLOCK = 128
_WHOLE = {
    name: FUNCTIONS[f"quantize_{name}"].call for name in ("token", "tensor", "channel", "block128")
}
_CODES = ("f8e4m3", "f8e5m2", "i8")
_LAYOUTS = ("row", "column_major_tma")
_NO_COLUMNS = ("tensor", "channel")
_THERE = ", ".join(("token", *GROUPS, "tensor", "channel", "block128"))
_quantize_group = FUNCTIONS["quantize_group"].call
_quantize_static = FUNCTIONS["quantize_static"].call
_dequantize_group = FUNCTIONS["dequantize_group"].call
_dequantize_channel = FUNCTIONS["dequantize_channel"].call
_MX = ("mxfp8", "mxfp4", "nvfp4")
_quantize_mx = {name: FUNCTIONS[f"quantize_{name}"].call for name in _MX}
_dequantize_mx = {name: FUNCTIONS[f"dequantize_{name}"].call for name in _MX}


def quantize(
    x: Any,
    granularity: str,
    dtype: Any = "f8e4m3",
    scale: Any = None,
    scale_dtype: str = "f32",
    scale_layout: str = "row",
    *,
    out: Any = None,
) -> tuple[Any, Any]:
    """Quantises to 8 bits: ``(q, scale)`` with ``x ≈ q · scale``.

    Elements that share a scale have ``scale = max |x| / largest`` and ``q = x / scale``, rounded to
    nearest even (within 5 f32 roundings of a tie, to either side) and saturated; ``largest`` is 448
    (f8e4m3), 57344 (f8e5m2) or 127 (i8). If they are all zero, the scale is 1.

    x ``[*T, K]`` is f32, f16 or bf16; q has its shape and ``dtype``; scale is f32. ``granularity``
    selects the elements that share a scale, and with them scale's shape:

    - ``"token"``, one row: ``[*T, 1]`` (``quantize_token``);
    - ``"group32"``, ``"group64"``, ``"group128"``, neighbouring columns; the last group may have
      fewer: ``[*T, ceil(K / group)]`` (``quantize_group``);
    - ``"channel"``, one column: ``[K]`` (``quantize_channel``);
    - ``"block128"``, 128×128 elements of a matrix ``[N, K]``: ``[ceil(N / 128), ceil(K / 128)]``
      (``quantize_block128``); of matrices ``[*E, N, K]``, those of each, in one call where their
      rows flatten and 128 divides N, else in one per matrix;
    - ``"tensor"``, all of x: ``[]`` (``quantize_tensor``: two launches on a GPU).

    With a ``scale`` no maximum is computed, and the scale is returned unchanged. For ``"tensor"``
    it is a number or f32 ``[]`` (``quantize_static``). For another granularity it is f32 of the
    shape above, and x is divided by it first: an extra launch and an f32 copy of x.

    ``scale_dtype="ue8m0"`` rounds scales up to powers of two, so that 8 exponent bits hold them
    and no code saturates. They stay f32: DeepGEMM takes that form on Hopper and packs the exponents
    itself on Blackwell. ``scale_layout="column_major_tma"`` stores the scales of ``"token"``,
    groups and ``"block128"`` column-major, as DeepGEMM's products read them: the shape is still
    ``[T, G]``, but the strides are 1 and T rounded up to 4 elements, so that every column starts at
    a multiple of 16 bytes, as the tensor memory accelerator requires. x must then be a torch tensor
    or a NumPy array, and the padding between T and that stride is not written.

    ``out=(q, scale)`` is written, whatever the layout of its scale; a given scale is copied there.
    Never waits for a GPU. NaN and infinities go into the scale, so that the elements sharing it
    dequantise to NaN. No gradient. Errors: ArgumentError for an unknown granularity or layout, for
    a scale with a scale_dtype or scale_layout, or for a column-major layout with a granularity that
    has none; ShapeMismatchError for a scale of another shape; those of the operators. Source:
    Micikevicius et al., FP8 Formats for Deep Learning, 2022; DeepGEMM.
    """
    if granularity not in _WHOLE and granularity not in GROUPS:
        raise ArgumentError.from_library(
            f"quantize: granularity is not offered; expected {_THERE}, got {granularity!r}; "
            "quantize_group takes groups of any width",
            "quantize", "granularity", _THERE, repr(granularity),
        )  # fmt: skip
    if scale_layout not in _LAYOUTS or (scale_layout != "row" and granularity in _NO_COLUMNS):
        expected = " or ".join(map(repr, _LAYOUTS if granularity not in _NO_COLUMNS else ("row",)))
        raise ArgumentError.from_library(
            f"quantize: scale_layout is not offered with granularity {granularity!r}; expected "
            f"{expected}, got {scale_layout!r}",
            "quantize", "scale_layout", expected, repr(scale_layout),
        )  # fmt: skip
    if scale is not None:
        if scale_dtype != "f32":
            raise ArgumentError.from_library(
                "quantize: scale_dtype is given with a scale, which stays as it is; expected "
                f"'f32', got {scale_dtype!r}",
                "quantize", "scale_dtype", "'f32'", repr(scale_dtype),
            )  # fmt: skip
        if scale_layout != "row":
            raise ArgumentError.from_library(
                "quantize: scale_layout is given with a scale, which stays as it is; expected "
                f"'row', got {scale_layout!r}",
                "quantize", "scale_layout", "'row'", repr(scale_layout),
            )  # fmt: skip
        if granularity == "tensor":
            return with_scale(
                "quantize", lambda to: _quantize_static(x, scale, dtype, out=to), scale, out
            )
        return _with_scales(x, granularity, dtype, scale, out)
    if granularity == "block128" and len(getattr(x, "shape", ())) > 2:
        return _quantize_matrices(x, dtype, scale_dtype, scale_layout, out)
    call = _WHOLE.get(granularity, _quantize_group)
    group = (GROUPS[granularity],) if granularity in GROUPS else ()
    codes = "f8e4m3" if dtype is None else dtype
    # A scale that is given lies as it does; the operator refuses a dtype that is not offered.
    if out is not None or scale_layout == "row" or name_of(codes) not in _CODES:
        return call(x, *group, dtype, scale_dtype, out=out)  # type: ignore[no-any-return]
    shape = tuple(getattr(x, "shape", ()))
    out = empty(x, shape, codes, "quantize"), _columns(x, granularity, shape)
    call(x, *group, dtype, scale_dtype, out=out)
    return out


def _columns(x: Any, granularity: str, shape: tuple[Any, ...]) -> Any:
    """Memory for column-major scales: ``[*T, G]``, or ``[*E, rows, G]`` of blocks."""
    width = shape[-1] if shape else 0
    lead = shape[:-1]
    if granularity == "token":
        parts: Any = 1
    else:
        by = GROUPS.get(granularity, _BLOCK)
        parts = (width + by - 1) // by
    if granularity == "block128":
        rows: Any = (shape[-2] + _BLOCK - 1) // _BLOCK if len(shape) > 1 else 1
        columns = empty(x, (*shape[:-2], parts, (rows + 3) // 4 * 4), "f32", "quantize")
        return columns[..., :rows].swapaxes(-1, -2)
    rows = 1
    for size in lead:
        rows = rows * size
    columns = empty(x, (parts, (rows + 3) // 4 * 4), "f32", "quantize")
    return columns[:, :rows].swapaxes(0, 1).reshape((*lead, parts))


def _quantize_matrices(x: Any, dtype: Any, scale_dtype: str, layout: str, out: Any) -> Any:
    """``block128`` of matrices ``[*E, N, K]``."""
    shape, call = tuple(x.shape), _WHOLE["block128"]
    codes, (*lead, rows, width) = "f8e4m3" if dtype is None else dtype, shape
    parts = (*lead, (rows + _BLOCK - 1) // _BLOCK, (width + _BLOCK - 1) // _BLOCK)
    given = out is not None
    if not given and name_of(codes) not in _CODES:
        call(empty(x, (rows, width), x.dtype, _OP), dtype, scale_dtype)  # refuses it
    if given:
        names = ("q", "scale")
        places = places_of("quantize", out, names)
        kind = name_of(codes) or str(codes)
        check_place("quantize", "out[0] (q)", places[0], (shape,), kind, x)
        check_place("quantize", "out[1] (scale)", places[1], (parts,), "f32", x)
        check_apart("quantize", places[0], x=x, scale=places[1])
        check_apart("quantize", places[1], x=x)
    else:
        scales = _columns(x, "block128", shape) if layout != "row" else empty(x, parts, "f32", _OP)
        out = empty(x, shape, codes, _OP), scales
    q, scale = out
    count = math.prod(lead)
    if rows % _BLOCK == 0 and all(flattens(t, 1) for t in (x, q, scale)) and count:
        flat = q.reshape((count * rows, width)), scale.reshape((count * parts[-2], parts[-1]))
        call(x.reshape((count * rows, width)), dtype, scale_dtype, out=flat)
        return out
    if not count:  # no matrix: a dtype that is not offered is refused where they would be
        call(empty(x, (rows, width), x.dtype, _OP), dtype, scale_dtype)
    for at in product(*map(range, lead)):
        call(x[at], dtype, scale_dtype, out=(q[at], scale[at]))
    return out


def _with_scales(x: Any, granularity: str, dtype: Any, scale: Any, out: Any) -> Any:
    """Codes for scales of a finer granularity than the tensor's: ``x / scale`` in f32, then the
    codes of that for a scale of 1."""
    shape = tuple(getattr(x, "shape", ()))
    if not hasattr(x, "__truediv__") or not hasattr(scale, "__truediv__") or not shape:
        name, got = ("scale", scale) if hasattr(x, "__truediv__") and shape else ("x", x)
        expected = "an array with arithmetic, of NumPy or torch, with a dimension at least"
        raise ArgumentTypeError.from_library(
            f"quantize: {name} cannot be divided; expected {expected}, got {_kind(got)}",
            _OP, name, expected, _kind(got),
        )  # fmt: skip
    *lead, width = shape
    by = GROUPS.get(granularity, _BLOCK)
    parts: Any = {"token": (*lead, 1), "channel": (width,)}.get(granularity)
    if granularity == "block128" and len(shape) > 1:
        parts = (*lead[:-1], (lead[-1] + _BLOCK - 1) // _BLOCK, (width + _BLOCK - 1) // _BLOCK)
    elif parts is None:
        parts = (*lead, (width + by - 1) // by)
    if tuple(getattr(scale, "shape", ())) != tuple(parts):
        got = str(tuple(getattr(scale, "shape", ()))) if hasattr(scale, "shape") else _kind(scale)
        raise ShapeMismatchError.from_library(
            f"quantize: scale has another shape; expected {parts} for granularity "
            f"{granularity!r}, got {got}",
            _OP, "scale", str(parts), got,
        )  # fmt: skip
    if name_of(scale.dtype) != "f32":
        got = name_of(scale.dtype) or str(scale.dtype)
        raise UnsupportedDtypeError.from_library(
            f"quantize: scale has dtype {got}; expected f32, got {got}", _OP, "scale", "f32", got
        )
    if asks_for_gradients(x, scale):
        raise grad_error(_OP, "x" if asks_for_gradients(x) else "scale")
    there, here = (str(getattr(t, "device", "cpu")) for t in (x, scale))
    if there != here:
        raise DeviceError.from_library(
            f"quantize: scale is on {here}; expected {there}, where x is, got {here}",
            _OP, "scale", there, here,
        )  # fmt: skip
    whole = scale
    if granularity == "block128" and len(shape) > 1:
        whole = _repeated(whole, _BLOCK, -2)[..., : lead[-1], :]
    if granularity not in ("token", "channel"):
        whole = _repeated(whole, by, -1)[..., :width]
    wide = x.float() if hasattr(x, "new_empty") else x.astype("float32")
    if out is not None:
        for place in out if isinstance(out, (tuple, list)) else (out,):
            if place is not None and place is not scale:
                check_apart(_OP, place, x=x, scale=scale)
    return with_scale(
        _OP, lambda to: _quantize_static(wide / whole, 1.0, dtype, out=to), scale, out,
        shapes=(tuple(parts),),
    )  # fmt: skip


def _repeated(array: Any, times: int, axis: int) -> Any:
    """Each element along an axis, several times."""
    if hasattr(array, "repeat_interleave"):
        return array.repeat_interleave(times, axis)
    _need(array, "repeat", "scale")
    return array.repeat(times, axis)


def dequantize(q: Any, scale: Any, out_dtype: Any = None, *, out: Any = None) -> Any:
    """Dequantises the results of ``quantize``: ``y = q · scale``, rounded once.

    q ``[*T, K]`` is f8e4m3, f8e5m2 or i8; scale is f32, and its shape selects the elements that
    share a scale:

    - ``[]``, ``[1]`` or a number: all of q;
    - ``[*T, 1]``: one row;
    - ``[*T, ceil(K / group)]``: 32, 64 or 128 columns (the operator ``dequantize_group`` takes
      groups of any width);
    - ``[K]``: one column (``dequantize_channel``);
    - ``[*E, ceil(N / 128), ceil(K / 128)]``: 128×128 elements of matrices ``[*E, N, K]``, NumPy
      arrays or torch tensors.

    y has q's shape and ``out_dtype``: f32 (None, the default), f16 or bf16. Where q or its scale is
    NaN, y is NaN. ``out``: where y goes. No gradient. Errors: ShapeMismatchError for a scale that
    fits no granularity; those of ``dequantize_group`` and ``dequantize_channel``.
    """
    if isinstance(scale, (int, float)) and not isinstance(scale, bool):  # a static one comes back
        need_arrays("dequantize", q=q)
        scale = number_beside(q, scale)
    parts = getattr(scale, "shape", None)
    if parts is None:
        expected, got = "f32, an array of one of the shapes that quantize gives", _kind(scale)
        raise ArgumentTypeError.from_library(
            f"dequantize: scale is no array; expected {expected}, got {got}; of all of q it is a "
            "number, or one without dimensions",
            "dequantize", "scale", expected, got,
        )  # fmt: skip
    shape = getattr(q, "shape", ())
    if len(parts) == 0 or (len(parts) == 1 and parts[0] == 1 and len(shape) != 1):
        return _dequantize_whole(q, scale, out_dtype, out)
    width, columns = _last(q), _last(scale)
    if len(shape) > 0 and tuple(parts) == (width,):
        return _dequantize_channel(q, scale, out_dtype, out=out)
    if len(shape) >= 2 and len(parts) == len(shape) and parts[-2] != shape[-2]:
        blocks = tuple((size + _BLOCK - 1) // _BLOCK for size in shape[-2:])
        if tuple(parts) == (*shape[:-2], *blocks):
            return _dequantize_blocks(q, scale, out_dtype, out)
    if width == 0 and columns == 1:  # of rows without columns
        scale, columns = scale[..., :0], 0
    for group in (max(1, width), *GROUPS.values()):
        if (width + group - 1) // group == columns:
            return _dequantize_group(q, scale, group, out_dtype, out=out)
    expected = f"its last dimension 1 or {width} / 32, 64 or 128, rounded up, or a shape of ()"
    raise ShapeMismatchError.from_library(
        f"dequantize: scale fits no granularity of q; expected {expected}, got "
        f"{tuple(parts)}; dequantize_group takes groups of any width",
        "dequantize", "scale", expected, str(tuple(parts)),
    )  # fmt: skip


def quantize_mx(
    x: Any, format: str, global_scale: Any = None, *, out: Any = None
) -> tuple[Any, ...]:
    """Quantises to a microscaling format: ``(q, scale)``, for nvfp4 ``(q, scale, global_scale)``.

    x ``[*T, K]`` is f32, f16 or bf16. ``format`` selects the codes and the scales that neighbouring
    columns share:

    - ``"mxfp8"``: e4m3 codes; 32 columns share a power of two in f8e8m0: q ``[*T, K]``, scale
      ``[*T, ceil(K / 32)]`` (``quantize_mxfp8``);
    - ``"mxfp4"``: e2m1 codes, the same scales; q ``[*T, K / 2]`` is uint8 with two codes per byte,
      the first in the low half (``quantize_mxfp4``);
    - ``"nvfp4"``: e2m1 codes; 16 columns share an f8e4m3, and all of x one f32:
      ``x ≈ q · scale · global_scale`` (``quantize_nvfp4``). A missing ``global_scale`` is computed
      by an earlier pass as ``max |x| / (448 · 6)``, for NumPy arrays and torch tensors.

    ``out``, a tuple of all results, is written; it gets a copy of a global_scale that was given.
    Never waits for a GPU. No gradient. Errors: ArgumentError for an unknown format, or for a
    ``global_scale`` with a format that has none; those of the operators. Source: OCP Microscaling
    Formats 1.0, 2023; NVIDIA, NVFP4, 2025.
    """
    _check_format("quantize_mx", format, global_scale)
    if format != "nvfp4":
        return _quantize_mx[format](x, out=out)  # type: ignore[no-any-return]
    place = None
    if out is not None:
        *_, place = places_of("quantize_mx", out, ("q", "scale", "global_scale"))
        check_place("quantize_mx", "out[2] (global_scale)", place, ((), (1,)), "f32", x)
        check_apart("quantize_mx", place, x=x, q=out[0], scale=out[1])
    if global_scale is None:
        _, whole = _WHOLE["tensor"](x)
        global_scale = whole / 6
    made = _quantize_mx[format](x, global_scale, out=None if out is None else out[:2])
    if place is None:
        return (*made, global_scale)
    if place is not global_scale:
        place[...] = as_placed(global_scale, place)
    return out  # type: ignore[no-any-return]


def dequantize_mx(
    q: Any, scale: Any, format: str, global_scale: Any = None, out_dtype: Any = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """Dequantises microscaling codes: ``y = q · scale`` (nvfp4: ``· global_scale``), rounded once.

    q and scale are as ``quantize_mx`` returns them; packed codes may also have torch's dtype
    float4_e2m1fn_x2. y is ``[*T, K]`` in ``out_dtype``: f32 (None, the default), f16 or bf16;
    ``out`` is where it goes. No gradient. Errors: ArgumentError for an unknown format, or for a
    ``global_scale`` that is missing or that the format does not have; those of
    ``dequantize_mxfp8``, ``dequantize_mxfp4`` and ``dequantize_nvfp4``.
    """
    _check_format("dequantize_mx", format, global_scale)
    call = _dequantize_mx[format]
    if format == "mxfp8":
        return call(q, scale, out_dtype, out=out)
    q = bytes_of(q)
    if format == "mxfp4":
        return call(q, scale, out_dtype, out=out)
    if global_scale is None:
        raise ArgumentError.from_library(
            "dequantize_mx: global_scale is missing; expected what quantize_mx gave with 'nvfp4', "
            "got None",
            "dequantize_mx", "global_scale", "a scale with format 'nvfp4'", "None",
        )  # fmt: skip
    return call(q, scale, global_scale, out_dtype, out=out)


def _check_format(op: str, format: str, global_scale: Any) -> None:
    if format not in _MX:
        expected = ", ".join(_MX)
        raise ArgumentError.from_library(
            f"{op}: format is not offered; expected {expected}, got {format!r}",
            op, "format", expected, repr(format),
        )  # fmt: skip
    if global_scale is not None and format != "nvfp4":
        raise ArgumentError.from_library(
            f"{op}: global_scale is given; expected None with format {format!r}",
            op, "global_scale", f"None with format {format!r}", type(global_scale).__name__,
        )  # fmt: skip


def _dequantize_whole(q: Any, scale: Any, out_dtype: Any, out: Any) -> Any:
    """Broadcasts one scale to every row, without a copy of q or of the scale."""
    shape = tuple(getattr(q, "shape", ()))
    if len(shape) == 0:
        _need(q, "reshape", "q")
        one = scale.reshape((1,))
        return _dequantize_as(
            q, (1,), out, lambda q, to: _dequantize_group(q, one, 1, out_dtype, out=to)
        )
    _need(scale, "reshape", "scale")
    if not hasattr(scale, "__getitem__"):  # dlblas.Array, whose elements lie side by side
        count = math.prod(shape)
        scales = scale.reshape((1,)) if count else type(scale)((0,), "f32")
        return _dequantize_as(
            q,
            (count,),
            out,
            lambda q, to: _dequantize_group(q, scales, max(1, count), out_dtype, out=to),
        )
    columns = 1 if shape[-1] else 0  # rows without columns have no scale
    scales = scale.reshape((1,) * len(shape))[..., :columns]
    scales = spread(scales, (*shape[:-1], columns))
    return _dequantize_group(q, scales, max(1, shape[-1]), out_dtype, out=out)


def _dequantize_as(
    q: Any, shape: tuple[Any, ...], out: Any, call: Callable[[Any, Any], Any]
) -> Any:
    """The call on q in another shape; its result has q's."""
    wanted = tuple(q.shape)
    if out is None:
        return call(q.reshape(shape), None).reshape(wanted)
    check_shape("dequantize", out, wanted)
    check_apart("dequantize", out, q=q)
    if type(out) is Array:  # its elements lie side by side
        call(q.reshape(shape), out.reshape(shape))
        return out
    return into(out, shape, lambda to: call(q.reshape(shape), to), "dequantize")


def _dequantize_blocks(q: Any, scale: Any, out_dtype: Any, out: Any) -> Any:
    *matrices, rows, width = q.shape
    if rows % _BLOCK != 0 or not hasattr(q, "swapaxes"):
        each = _repeated(scale, _BLOCK, -2)[..., :rows, :]  # a block's scale for each of its rows
        return _dequantize_group(q, each, _BLOCK, out_dtype, out=out)
    lead = *matrices, rows // _BLOCK, _BLOCK
    scales = spread(scale[..., None, :], (*lead, scale.shape[-1]))  # without a copy
    return _dequantize_as(
        q, (*lead, width), out,
        lambda q, to: _dequantize_group(q, scales, _BLOCK, out_dtype, out=to),
    )  # fmt: skip


def _need(array: Any, method: str, argument: str) -> None:
    if hasattr(array, method):
        return
    expected, got = "a NumPy array or a torch tensor", type(array).__name__
    raise ArgumentTypeError.from_library(
        f"dequantize: {argument} cannot be turned; expected {expected}, got {got}",
        "dequantize", argument, expected, got,
    )  # fmt: skip


def _last(array: Any) -> int:
    shape = getattr(array, "shape", ())
    return shape[-1] if len(shape) else 0


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__
