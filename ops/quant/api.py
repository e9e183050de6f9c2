"""``dlblas.quantize`` and ``dlblas.dequantize``: the granularities of 8-bit scales by name.

In: arrays of any package that the operators take. Out: what the operators of this family return;
nothing is computed here, and torch.compile follows it. Read next: quantize_token/, quantize_group/,
quantize_tensor/, dequantize_group/.
"""

from __future__ import annotations

from typing import Any

from .._functions import FUNCTIONS
from .._granularity import GROUPS
from ..errors import ArgumentError, ArgumentTypeError, ShapeMismatchError

__all__ = ["dequantize", "quantize"]

_BLOCK = 128
_WHOLE = {
    name: FUNCTIONS[f"quantize_{name}"].call for name in ("token", "tensor", "channel", "block128")
}
_THERE = ", ".join(("token", *GROUPS, "tensor", "channel", "block128"))
_quantize_group = FUNCTIONS["quantize_group"].call
_quantize_static = FUNCTIONS["quantize_static"].call
_dequantize_group = FUNCTIONS["dequantize_group"].call


def quantize(x: Any, granularity: str, dtype: Any = "f8e4m3", scale: Any = None) -> tuple[Any, Any]:
    """Quantises to 8 bits: ``(q, scale)`` with ``x ≈ q · scale``.

    ``scale = max |x| / largest`` of each part, ``q = x / scale`` rounded to nearest even and
    saturated; ``largest`` is 448 (f8e4m3), 57344 (f8e5m2) or 127 (i8). A part without anything but
    zeros has the scale 1.

    x ``[*T, K]`` is f32, f16 or bf16; q has its shape and ``dtype``; scale is f32. What has a scale
    of its own, ``granularity``, says scale's shape:

    - ``"token"``, a row: ``[*T, 1]`` (``quantize_token``);
    - ``"group32"``, ``"group64"``, ``"group128"``, neighbouring columns, of which the last group
      may have fewer: ``[*T, ceil(K / group)]`` (``quantize_group``);
    - ``"channel"``, a column: ``[K]`` (``quantize_channel``);
    - ``"block128"``, 128×128 elements of a matrix ``[N, K]``: ``[ceil(N / 128), ceil(K / 128)]``
      (``quantize_block128``);
    - ``"tensor"``, all of x: ``[]`` (``quantize_tensor``: two launches on a GPU). Only here a
      ``scale`` may be given, a number or f32 ``[]``: nothing is looked for then, and it comes back
      as it is (``quantize_static``).

    Nothing waits for a GPU. NaN and infinities go into the scale, so that what is dequantised of
    their part is NaN. No gradient. Errors: ArgumentError for another granularity, or for a scale
    with one that is not ``"tensor"``; those of the operators. Source: Micikevicius et al., FP8
    Formats for Deep Learning, 2022.
    """
    if granularity not in _WHOLE and granularity not in GROUPS:
        raise ArgumentError.from_library(
            f"quantize: granularity is not offered; expected {_THERE}, got {granularity!r}; "
            "quantize_group takes groups of any width",
            "quantize", "granularity", _THERE, repr(granularity),
        )  # fmt: skip
    if scale is not None:
        if granularity == "tensor":
            return _quantize_static(x, scale, dtype), scale
        raise ArgumentError.from_library(
            f"quantize: scale is given for another granularity; expected 'tensor', got "
            f"{granularity!r}; leave scale out, and it is found",
            "quantize", "scale", "granularity 'tensor'", repr(granularity),
        )  # fmt: skip
    if granularity in GROUPS:
        return _quantize_group(x, GROUPS[granularity], dtype)  # type: ignore[no-any-return]
    return _WHOLE[granularity](x, dtype)  # type: ignore[no-any-return]


def dequantize(q: Any, scale: Any, out_dtype: Any = None) -> Any:
    """``y = q · scale``, rounded once: what ``quantize`` took apart.

    q ``[*T, K]`` is f8e4m3, f8e5m2 or i8; scale is f32, and its shape says what a scale belongs to:
    ``[]`` all of q, ``[*T, 1]`` a row, ``[*T, ceil(K / group)]`` 32, 64 or 128 columns (the
    operator ``dequantize_group`` takes groups of any width), ``[K]`` a column, ``[ceil(N / 128),
    ceil(K / 128)]`` 128×128 elements of a matrix; columns and blocks of NumPy arrays and torch
    tensors. y has q's shape and ``out_dtype``: f32 (None, the default), f16 or bf16.

    NaN of q or of a scale is NaN. No gradient. Errors: ShapeMismatchError for a scale that fits no
    granularity; those of ``dequantize_group``.
    """
    parts = getattr(scale, "shape", None)
    if parts is not None and len(parts) == 0:
        flat = _flat(q, "dequantize", "q")
        count = flat.shape[0]
        scales = scale.reshape((1,))
        if count == 0:  # nothing at all has no scale either
            scales = scales[:0]
        return _dequantize_group(flat, scales, max(1, count), out_dtype).reshape(q.shape)
    width, columns = _last(q), _last(scale)
    shape = getattr(q, "shape", ())
    if parts is not None and len(shape) > 0 and tuple(parts) == (width,):
        return _dequantize_channel(q, scale, out_dtype)
    if len(shape) == 2 and parts is not None and len(parts) == 2 and parts[0] != shape[0]:
        blocks = tuple((size + _BLOCK - 1) // _BLOCK for size in shape)
        if tuple(parts) == blocks:
            return _dequantize_group(q, _each_row(scale, shape[0]), _BLOCK, out_dtype)
    if width == 0 and columns == 1:  # of rows without columns
        scale, columns = scale[..., :0], 0
    for group in (max(1, width), *GROUPS.values()):
        if (width + group - 1) // group == columns:
            return _dequantize_group(q, scale, group, out_dtype)
    expected = f"its last dimension 1 or {width} / 32, 64 or 128, rounded up, or a shape of ()"
    raise ShapeMismatchError.from_library(
        f"dequantize: scale fits no granularity of q; expected {expected}, got "
        f"{tuple(parts or ())}; dequantize_group takes groups of any width",
        "dequantize", "scale", expected, str(tuple(parts or ())),
    )  # fmt: skip


def _dequantize_channel(q: Any, scale: Any, out_dtype: Any) -> Any:
    """Columns of q are rows of its transpose."""
    _need(q, "swapaxes", "q")
    shape, columns = q.shape, scale.shape[0]
    rows = 1
    for size in shape[:-1]:
        rows = rows * size
    turned = q.reshape((rows, columns)).swapaxes(0, 1)
    scales = scale.reshape((columns, 1))[:, : min(1, rows)]
    return _dequantize_group(turned, scales, max(1, rows), out_dtype).swapaxes(0, 1).reshape(shape)


def _each_row(scale: Any, rows: int) -> Any:
    """A block's scale for each of its rows."""
    if hasattr(scale, "repeat_interleave"):
        return scale.repeat_interleave(_BLOCK, 0)[:rows]
    _need(scale, "repeat", "scale")
    return scale.repeat(_BLOCK, 0)[:rows]


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


def _flat(array: Any, op: str, argument: str) -> Any:
    if not hasattr(array, "reshape"):
        expected, got = "an array that can be reshaped", type(array).__name__
        raise ArgumentTypeError.from_library(
            f"{op}: {argument} cannot be one row; expected {expected}, got {got}; "
            "hand over a NumPy array or a torch tensor",
            op, argument, expected, got,
        )  # fmt: skip
    return array.reshape((-1,))
