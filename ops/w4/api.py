"""``dlblas.mm_w4a16``, ``dlblas.mm_w8a16``: products with weights of 4- and 8-bit codes.

In: arrays of any package that the operators take. Out: what they return; nothing is computed here,
and torch.compile traces it. Read next: mm_w4a16_awq/, mm_w4a16_gptq/,
mm_w8a16_group/.
"""

from __future__ import annotations

from typing import Any

from .._dtypes import name_of
from .._functions import FUNCTIONS
from .._given import as_rows, need
from .._hooks import older_forms
from .._joined import form as joined
from ..errors import ArgumentError

__all__ = ["mm_w4a16", "mm_w8a16"]

_awq, _gptq = FUNCTIONS["mm_w4a16_awq"].call, FUNCTIONS["mm_w4a16_gptq"].call
_i8 = FUNCTIONS["mm_w8a16_group"].call
_FORMATS = ("awq", "gptq", "gptq_v2")


def mm_w4a16(
    x: Any, qweight: Any, scales: Any, zeros: Any = None, group: int = 128, format: str = "awq", *,
    out: Any = None,
) -> Any:  # fmt: skip
    """Products with a 4-bit weight: ``y = x · w``, ``w = round((q − zero) · scale)``.

    x ``[*M, K]`` f16 or bf16, scales ``[K/group, N]`` of x's dtype -> y ``[*M, N]``. Words are i32.
    ``"awq"``: qweight ``[K, N/8]``, zeros ``[K/group, N/8]``, eight columns per word in the order
    0 2 4 6 1 3 5 7. ``"gptq"``: qweight ``[K/8, N]``, eight rows per word; zeros
    ``[K/group, N/8]``, eight columns per word, stored minus one as in AutoGPTQ's files.
    ``"gptq_v2"``: the same, with zeros stored unchanged. Without zeros, 8 is subtracted. x is
    copied if no view can flatten its leading dimensions. ``group``: rows that share a scale, a
    divisor of K; −1: all of K. Weights are rounded to x's dtype, as by ``awq_dequantize``; products
    and sums are f32, with one rounding. Errors: ArgumentError for an unknown format or a group
    below 1 other than −1, and those of ``mm_w4a16_awq`` and ``mm_w4a16_gptq``.
    Source: AWQ, GPTQ; as in vLLM and SGLang.
    """
    if format not in _FORMATS:
        expected = ", ".join(_FORMATS)
        raise ArgumentError.from_library(
            f"mm_w4a16: format is not offered; expected {expected}, got {format!r}",
            "mm_w4a16", "format", expected, repr(format),
        )  # fmt: skip
    need("mm_w4a16", x=x, qweight=qweight, scales=scales)
    x = as_rows(x)
    rows = x.shape[-1] if group == -1 and len(x.shape) else group
    if rows < 1:
        raise ArgumentError.from_library(
            f"mm_w4a16: group is out of range; expected 1 or more, or -1, got {group}",
            "mm_w4a16", "group", "1 or more, or -1", str(group),
        )  # fmt: skip
    if format == "awq":
        return _awq(x, qweight, scales, zeros, rows, out=out)
    return _gptq(x, qweight, scales, zeros, rows, format == "gptq", out=out)


def mm_w8a16(
    x: Any, qweight: Any, scale: Any, bias: Any = None, group: int = -1, *, out: Any = None
) -> Any:
    """Products with a weight of 8-bit codes: ``y = x · (q · scale)ᵀ + bias``.

    x ``[*T, K]`` f16 or bf16, qweight ``[N, K]`` i8, scale of f32 or x's dtype, bias ``[N]`` of f32
    or x's dtype -> y ``[*T, N]`` of x's dtype. ``group=-1``: one scale per output, ``[N]`` or
    ``[N, 1]``, as ``quantize(w, "token", dtype="i8")`` returns it. It multiplies the f32 sum of x
    times the codes, which are exact. Else ``[N, ⌈K / group⌉]``, a scale per ``group`` neighbouring
    codes of a row, as ``quantize(w, "group128", dtype="i8")`` returns it: the weight is rounded to
    x's dtype first, as by ``dequantize``; but if one group holds a whole row, its scale multiplies
    the sum. Products and sums are f32; the result is rounded once. x is copied if no view can
    flatten its leading dimensions, scale if it has x's dtype. Errors: ArgumentError for a group
    below 1 other than −1, and those of ``mm_w8a16_group``. On error nothing is written.
    Source: LLM.int8(); codes and scales as in ``quantize``.
    """
    need("mm_w8a16", x=x, qweight=qweight, scale=scale)
    x = as_rows(x)
    if getattr(scale, "dtype", None) is not None and name_of(scale.dtype) == name_of(x.dtype):
        scale = scale.float() if hasattr(scale, "float") else scale.astype("float32")
    each = group
    if group == -1 and len(x.shape):
        each = max(1, x.shape[-1])
        if len(scale.shape) == 1:
            scale = scale[:, None]
        if x.shape[-1] == 0 and len(scale.shape) == 2:
            scale = scale[:, :0]
    if each < 1:
        raise ArgumentError.from_library(
            f"mm_w8a16: group is out of range; expected 1 or more, or -1, got {group}",
            "mm_w8a16", "group", "1 or more, or -1", str(group),
        )  # fmt: skip
    return _i8(x, qweight, scale, bias, each, out=out)


older_forms.update(
    {name: joined(name, "x") for name in ("mm_w4a16_awq", "mm_w4a16_gptq", "mm_w8a16_group")}
)
