"""``dlblas.quantize`` and ``dlblas.dequantize``: the granularities of 8-bit scales by name.

In: arrays of any package that the operators take. Out: what the operators of this family return;
nothing is computed here, and torch.compile follows it. Read next: quantize_token/, quantize_group/,
dequantize_group/.
"""

from __future__ import annotations

from typing import Any

from .._functions import FUNCTIONS
from ..errors import ArgumentError, ArgumentTypeError, ShapeMismatchError

__all__ = ["dequantize", "quantize"]

_GROUPS = {"group32": 32, "group64": 64, "group128": 128}
_THERE = ", ".join(("token", *_GROUPS, "tensor"))
_quantize_token = FUNCTIONS["quantize_token"].call
_quantize_group = FUNCTIONS["quantize_group"].call
_dequantize_group = FUNCTIONS["dequantize_group"].call


def quantize(x: Any, granularity: str, dtype: Any = "f8e4m3") -> tuple[Any, Any]:
    """Quantises to 8 bits: ``(q, scale)`` with ``x ≈ q · scale``.

    ``scale = max |x| / largest`` of each part, ``q = x / scale`` rounded to nearest even and
    saturated; ``largest`` is 448 (f8e4m3), 57344 (f8e5m2) or 127 (i8). A part without anything but
    zeros has the scale 1.

    x ``[*T, K]`` is f32, f16 or bf16; q has its shape and ``dtype``; scale is f32. What has a scale
    of its own, ``granularity``, says scale's shape:

    - ``"token"``, a row: ``[*T, 1]`` (``quantize_token``);
    - ``"group32"``, ``"group64"``, ``"group128"``, neighbouring columns, of which the last group
      may have fewer: ``[*T, ceil(K / group)]`` (``quantize_group``);
    - ``"tensor"``, all of x: ``[]``. One row of all its elements, so it reads x by one block or
      cluster of a GPU; x that is not contiguous is copied first.

    Nothing waits for a GPU. NaN and infinities go into the scale, so that what is dequantised of
    their part is NaN. No gradient. Errors: ArgumentError for another granularity; those of the
    operators. Source: Micikevicius et al., FP8 Formats for Deep Learning, 2022.
    """
    if granularity == "token":
        return _quantize_token(x, dtype)
    if granularity in _GROUPS:
        return _quantize_group(x, _GROUPS[granularity], dtype)
    if granularity == "tensor":
        q, scale = _quantize_token(_flat(x, "quantize", "x"), dtype)
        return q.reshape(x.shape), scale.reshape(())
    raise ArgumentError.from_library(
        f"quantize: granularity is not offered; expected {_THERE}, got {granularity!r}; "
        "quantize_group takes groups of any width",
        "quantize", "granularity", _THERE, repr(granularity),
    )  # fmt: skip


def dequantize(q: Any, scale: Any, out_dtype: Any = None) -> Any:
    """``y = q · scale``, rounded once: what ``quantize`` took apart.

    q ``[*T, K]`` is f8e4m3, f8e5m2 or i8; scale is f32, and its shape says what a scale belongs to:
    ``[]`` all of q, ``[*T, 1]`` a row, ``[*T, ceil(K / group)]`` 32, 64 or 128 columns (the
    operator ``dequantize_group`` takes groups of any width). y has q's shape and ``out_dtype``:
    f32 (None, the default), f16 or bf16.

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
    if width == 0 and columns == 1:  # of rows without columns
        scale, columns = scale[..., :0], 0
    for group in (max(1, width), *_GROUPS.values()):
        if (width + group - 1) // group == columns:
            return _dequantize_group(q, scale, group, out_dtype)
    expected = f"its last dimension 1 or {width} / 32, 64 or 128, rounded up, or a shape of ()"
    raise ShapeMismatchError.from_library(
        f"dequantize: scale fits no granularity of q; expected {expected}, got "
        f"{tuple(parts or ())}; dequantize_group takes groups of any width",
        "dequantize", "scale", expected, str(tuple(parts or ())),
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
