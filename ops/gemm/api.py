"""``dlblas.linear``: a linear layer, with scales and a residual. ``bmm``: batched matrix products.
``scaled_mm``, ``fp8_gemm``, ``bmm_fp8``, ``int8_scaled_mm``: products of 8-bit codes with scales.
``grouped_gemm``: groups of rows, each with its own matrix.

In: arrays of any package that the operators accept. Out: their results; this module computes
nothing, and torch.compile traces through it. Read next: matmul/, linear_residual/,
scaled_mm_channel/, scaled_mm_block/, batched_scaled_mm/, grouped_gemm_rows/.
"""

from __future__ import annotations

import math
from typing import Any

from .._empty import empty, f8_of_bytes
from .._functions import FUNCTIONS
from .._given import as_rows, asks_for_gradients, flattens, need, strides_of
from .._hooks import older_forms
from .._joined import form as joined
from .._made_of import told
from .._overlap import check_apart
from .._results import check_shape
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    Error,
    ShapeMismatchError,
    UnsupportedDtypeError,
    renamed,
)
from .gemm_forms import matmul_forms, result_dtype
from .gemm_packed import linear_packed, pack_weight

__all__ = [
    "bmm",
    "bmm_fp8",
    "fp8_gemm",
    "grouped_gemm",
    "int8_scaled_mm",
    "linear",
    "linear_packed",
    "pack_weight",
    "scaled_mm",
]

# Function -> the operators' argument names -> their names here.
CALLED = {
    "bmm_fp8": {name: name for name in ("a", "b", "a_scale", "b_scale", "out_dtype", "out")},
    "fp8_gemm": {"out_dtype": "output_dtype"},
    "grouped_gemm": {
        "weight": "b",
        "weight_scale": "b_scale",
        "a": "a",
        "b": "b",
        "a_scale": "a_scale",
        "b_scale": "b_scale",
    },
    "int8_scaled_mm": {"a_scale": "scales_a", "b_scale": "scales_b"},
    "linear": {"a": "x", "b": "weight", "bias": "bias", "out": "out"},
}

_matmul = FUNCTIONS["matmul"].call
_linear_residual = FUNCTIONS["linear_residual"].call
_batched, _batched_nt = (FUNCTIONS[name].call for name in ("batched_matmul", "batched_matmul_nt"))
_batched_scaled = FUNCTIONS["batched_scaled_mm"].call
_scaled_mm_channel = FUNCTIONS["scaled_mm_channel"].call
_scaled_mm_block = FUNCTIONS["scaled_mm_block"].call
_quantize_tensor = FUNCTIONS["quantize_tensor"].call
_quantize_static = FUNCTIONS["quantize_static"].call
# Accepted spellings -> granularity.
_GRANULARITIES = {
    "tensor": "tensor",
    "token": "token", "channel": "token", "token_channel": "token",
    "group128": "group128", "block128": "group128", "group": "group128", "block": "group128",
    "group_block": "group128",
}  # fmt: skip
_THERE = "tensor, token or group128"

_grouped_rows = FUNCTIONS["grouped_gemm_rows"].call
_grouped_gathered = FUNCTIONS["grouped_gemm_gathered"].call
_grouped_masked = FUNCTIONS["grouped_gemm_masked"].call
_grouped_k = FUNCTIONS["grouped_gemm_k"].call
_grouped_rows_block = FUNCTIONS["grouped_gemm_rows_block"].call
_grouped_masked_block = FUNCTIONS["grouped_gemm_masked_block"].call
_grouped_k_block = FUNCTIONS["grouped_gemm_k_block"].call


def bmm(
    a: Any,
    b: Any,
    activation: str = "",
    *,
    bias: Any = None,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """Products of matrices with the same leading dimensions: ``out = act(a · b + bias)``.

    a ``[*B, M, K]``, b ``[*B, K, N]`` of any strides; bias ``[N]``, shared by the batch -> out
    ``[*B, M, N]``. Calls ``batched_matmul``, or ``batched_matmul_nt`` where b is contiguous along
    K: one launch on a GPU. For b ``[K, N]``, or one expanded matrix, it calls ``matmul``, with the
    leading dimensions as rows. Leading dimensions that do not flatten take one call per index of
    the first, or a copy where a gradient is needed. ``out``: the destination, which shares no
    memory with a, b or bias. Dtypes, activations, numerics and gradients, of a, b and bias, are
    those of ``matmul``. Errors: ShapeMismatchError for leading dimensions that differ and for
    another shape of ``out``; those of ``matmul``. Source: torch.bmm, NumPy's matmul.
    """
    need("bmm", a=a, b=b)
    if len(b.shape) <= 2:
        return _matmul(as_rows(a), b, activation, bias=bias, out_dtype=out_dtype, out=out)
    lead = tuple(b.shape[:-2])
    if tuple(a.shape[:-2]) != lead or len(a.shape) < 2:
        expected, got = f"{lead} before the last two", str(tuple(a.shape))
        raise ShapeMismatchError.from_library(
            f"bmm: a has other leading dimensions than b; expected {expected}, got {got}; expand "
            "one of them",
            "bmm", "a", expected, got,
        )  # fmt: skip
    sizes = (*lead, a.shape[-2], b.shape[-1])
    if out is None and asks_for_gradients(a, b, bias):
        a, b = (x.reshape(math.prod(lead), *x.shape[-2:]) for x in (a, b))
        return _one_call(a, b, activation, {"bias": bias, "out_dtype": out_dtype}).reshape(sizes)
    own = out is None
    if own:
        out = empty(a, sizes, result_dtype("bmm", out_dtype, a.dtype), "bmm", "a")
    elif out.shape != sizes:
        raise ShapeMismatchError.from_library(
            f"bmm: out has another shape; expected {sizes}, got {out.shape}",
            "bmm", "out", str(sizes), str(out.shape),
        )  # fmt: skip
    _multiply(a, b, out, activation, {"bias": bias, "out_dtype": out_dtype}, own)
    return out


def _one_call(a: Any, b: Any, activation: str, more: dict[str, Any]) -> Any:
    """One call for a ``[B, M, K]`` and b ``[B, K, N]``; b's strides pick the operator."""
    strides = strides_of(b)
    if strides is not None and strides[-1] != 1 and strides[-2] == 1:
        return _batched_nt(a, b.swapaxes(1, 2), activation, **more)
    return _batched(a, b, activation, **more)


older_forms.update(
    matmul=matmul_forms(told(bmm), _one_call),
    linear_panels=joined("linear_panels", "x"),
    linear_residual=joined("linear_residual", "x", "residual", "row_scale"),
    scaled_mm_channel=joined("scaled_mm_channel", "a", "a_scale"),
    scaled_mm_block=joined("scaled_mm_block", "a", "a_scale"),
)


def _multiply(a: Any, b: Any, out: Any, activation: str, more: dict[str, Any], apart: bool) -> None:
    """``apart``: out is known not to overlap the inputs. Otherwise that is checked before a split
    into several calls; a single call leaves it to the operator."""
    lead = tuple(b.shape[:-2])
    one = _is_one_matrix(b, lead)
    if one and flattens(a, 1) and flattens(out, 1):
        _matmul(a, b[(0,) * len(lead)], activation, **more, out=out)
    elif len(lead) > 1 and not all(flattens(x, 2) for x in (a, b, out)):
        if not apart:
            check_apart("bmm", out, a=a, b=b, bias=more["bias"])
        for i in range(lead[0]):
            _multiply(a[i], b[i], out[i], activation, more, True)
    else:
        a, b, out = (_flat(x, lead) for x in (a, b, out))
        _one_call(a, b, activation, {**more, "out": out})


def _is_one_matrix(b: Any, lead: tuple[int, ...]) -> bool:
    strides = strides_of(b)
    if strides is None or 0 in lead:
        return False
    return all(s == 0 or n == 1 for n, s in zip(lead, strides, strict=False))


def _flat(x: Any, lead: tuple[int, ...]) -> Any:
    """x as a view ``[B, rows, columns]``."""
    return x if len(lead) == 1 else x.reshape(math.prod(lead), *x.shape[-2:])


def scaled_mm(
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    *,
    granularity: str,
    bias: Any = None,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """Product of 8-bit codes and their scales: ``(a·a_scale)·(b·b_scale) + bias``.

    a ``[*M, K]`` and b ``[K, N]`` are both f8e4m3 or both i8, of any strides (``b = weight.T``);
    scales are f32 and dequantise; bias ``[N]`` -> out ``[*M, N]`` in ``out_dtype``: bf16 (None),
    f16 or f32. ``granularity`` says which codes share a scale, as in ``quantize``:

    - ``"tensor"``: one for all of a and one for all of b, as numbers or arrays of one element
      (``scaled_mm_channel``);
    - ``"token"``: one per row of a, ``[*M, 1]`` or ``[*M]``, and one per column of b, ``[N]``,
      ``[1, N]`` or ``[N, 1]``; either may be one element for all (``scaled_mm_channel``);
    - ``"group128"``: one per 128 codes of a row of a, ``[*M, ceil(K / 128)]``, row-major or
      column-major, and one per 128×128 codes of b, ``[ceil(K / 128), ceil(N / 128)]``: ``scale.T``
      of ``quantize(weight, "block128")`` (``scaled_mm_block``). N and K need not divide by 128.

    i8 sums are exact; f8 sums are f32, 128 terms at a time. One rounding. No gradient. Errors:
    ArgumentError for another granularity, ShapeMismatchError for a wrong number of scales; those of
    the operators. Source: DeepSeek-AI, DeepSeek-V3 Technical Report, 2024.
    """
    kind = _GRANULARITIES.get(granularity)
    if kind is None:
        raise ArgumentError.from_library(
            f"scaled_mm: granularity is not offered; expected {_THERE}, got {granularity!r}",
            "scaled_mm", "granularity", _THERE, repr(granularity),
        )  # fmt: skip
    need("scaled_mm", a=a, b=b)
    a = as_rows(a)
    if kind == "group128":
        steps = as_rows(a_scale), b_scale
        return _scaled_mm_block(a, b, *steps, bias=bias, out_dtype=out_dtype, out=out)
    if kind == "tensor":
        for name, scale in (("a_scale", a_scale), ("b_scale", b_scale)):
            _one("scaled_mm", name, scale)
    a_scale, b_scale = _steps("scaled_mm", a, b, a_scale=a_scale, b_scale=b_scale)
    return _scaled_mm_channel(a, b, a_scale, b_scale, bias=bias, out_dtype=out_dtype, out=out)


def int8_scaled_mm(
    a: Any,
    b: Any,
    scales_a: Any,
    scales_b: Any,
    out_dtype: Any = None,
    bias: Any = None,
    *,
    out: Any = None,
) -> Any:
    """``scaled_mm`` of i8 under its name in SGLang: one scale per row of a and per column of b.

    a ``[*M, K]``, b ``[K, N]`` (column-major there: ``weight.T``; any strides here), scales_a
    ``[M]`` or ``[M, 1]``, scales_b ``[N]``, ``[N, 1]`` or ``[1, N]``, bias ``[N]`` -> out
    ``[*M, N]``, bf16 (None), f16 or f32. Sums are exact, like i32 sums; scales and bias are applied
    in f32, with one rounding. ``out``: the destination. Errors: UnsupportedDtypeError for codes
    other than i8; those of ``scaled_mm``.
    """
    need("int8_scaled_mm", a=a, b=b)
    _codes_are("int8_scaled_mm", "i8", a, b)
    a = as_rows(a)
    scales_a, scales_b = _steps("int8_scaled_mm", a, b, scales_a=scales_a, scales_b=scales_b)
    return _scaled_mm_channel(a, b, scales_a, scales_b, bias=bias, out_dtype=out_dtype, out=out)


def bmm_fp8(
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """Products of f8 matrices with one scale per side: ``out = (a · a_scale) · (b · b_scale)``.

    a ``[*B, M, K]`` and b ``[*B, K, N]`` (column-major in SGLang and FlashInfer; any strides here)
    are f8e4m3; the scales dequantise and are numbers or arrays of one element -> out
    ``[*B, M, N]`` in ``out_dtype``: bf16 (None), f16 or f32. One call of ``batched_scaled_mm``, or
    one per index of the first dimension where leading dimensions do not flatten. ``out``: the
    destination, which shares no memory with the inputs. Errors: ShapeMismatchError for leading
    dimensions that differ and for another shape of ``out``; UnsupportedDtypeError for codes other
    than f8e4m3; those of ``scaled_mm``. Source: FlashInfer's function of this name.
    """
    need("bmm_fp8", a=a, b=b)
    _codes_are("bmm_fp8", "f8e4m3", a, b)
    lead = tuple(b.shape[:-2])
    if tuple(a.shape[:-2]) != lead or len(a.shape) < 2:
        expected, got = f"{lead} before the last two", str(tuple(a.shape))
        raise ShapeMismatchError.from_library(
            f"bmm_fp8: a has other leading dimensions than b; expected {expected}, got {got}; "
            "expand one of them",
            "bmm_fp8", "a", expected, got,
        )  # fmt: skip
    for name, scale in (("a_scale", a_scale), ("b_scale", b_scale)):
        _one("bmm_fp8", name, scale)
    if not lead:
        steps = _steps("bmm_fp8", a, b, a_scale=a_scale, b_scale=b_scale)
        return _scaled_mm_channel(a, b, *steps, out_dtype=out_dtype, out=out)
    scales = (_vector("bmm_fp8", "a_scale", a_scale, a), _vector("bmm_fp8", "b_scale", b_scale, b))
    sizes = (*lead, a.shape[-2], b.shape[-1])
    if out is None:
        if len(lead) == 1 or all(flattens(x, 2) for x in (a, b)):
            a, b = _flat(a, lead), _flat(b, lead)
            return _batched_scaled(a, b, *scales, out_dtype=out_dtype).reshape(sizes)
        out = empty(a, sizes, result_dtype("bmm_fp8", out_dtype, "bf16"), "bmm_fp8", "a")
    elif tuple(out.shape) != sizes:
        raise ShapeMismatchError.from_library(
            f"bmm_fp8: out has another shape; expected {sizes}, got {tuple(out.shape)}",
            "bmm_fp8", "out", str(sizes), str(tuple(out.shape)),
        )  # fmt: skip
    elif len(lead) > 1:  # several calls, perhaps
        check_apart("bmm_fp8", out, a=a, b=b, a_scale=a_scale, b_scale=b_scale)
    _multiply_codes(a, b, scales, out, out_dtype or out.dtype)
    return out


def _multiply_codes(a: Any, b: Any, scales: tuple[Any, Any], out: Any, out_dtype: Any) -> None:
    """One call for all matrices, or one per index of the first dimension if they do not flatten."""
    lead = tuple(b.shape[:-2])
    if len(lead) > 1 and not all(flattens(x, 2) for x in (a, b, out)):
        for i in range(lead[0]):
            _multiply_codes(a[i], b[i], scales, out[i], out_dtype)
    else:
        a, b, out = (_flat(x, lead) for x in (a, b, out))
        _batched_scaled(a, b, *scales, out_dtype=out_dtype, out=out)


def fp8_gemm(
    a: Any,
    b: Any,
    a_scale: Any = None,
    b_scale: Any = None,
    output_dtype: Any = "f16",
    *,
    out: Any = None,
) -> Any:
    """``a · b`` in f8e4m3 with one scale per side, as in Triton Fused Operators: scales *multiply*.

    a ``[*M, K]``, b ``[K, N]``: floats, which are quantised here (``scale = 448 / max |x|``, two
    launches per side on a GPU; or by the scale that is given), or f8e4m3 (also its bits as uint8)
    with the scale that produced the codes: a number or one element, above 0 -> out ``[*M, N]`` in
    ``output_dtype``: f16, bf16 or f32. ``out = (a · b) / (a_scale · b_scale)``, f32 sums, one
    rounding. For scales that divide, per row or per block, use ``scaled_mm``. ``out``: the
    destination, which shares no memory with a, b or their scales. No gradient. Errors:
    ArgumentError for codes without a scale and for a number that is no valid scale;
    ShapeMismatchError; those of ``scaled_mm``. Source: Micikevicius et al., FP8 Formats for Deep
    Learning, 2022.
    """
    need("fp8_gemm", a=a, b=b)
    if out is not None:
        check_shape("fp8_gemm", out, (*a.shape[:-1], *b.shape[-1:]))
        check_apart("fp8_gemm", out, a=a, b=b, a_scale=a_scale, b_scale=b_scale)
    a, a_step = _codes(as_rows(a), a_scale, "a")
    # Tensor cores need b contiguous along K: its codes are stored column-major.
    b, b_step = _codes(b, b_scale, "b")
    return _scaled_mm_channel(
        a, b, _one_for_rows(a_step, tuple(a.shape[:-1])), b_step, out_dtype=output_dtype, out=out
    )


def _codes(x: Any, scale: Any, name: str) -> tuple[Any, Any]:
    """f8 codes and the step that dequantises them, ``[1]``."""
    x = f8_of_bytes(x)
    is_codes = "float8" in str(x.dtype)
    if scale is not None:
        _one("fp8_gemm", f"{name}_scale", scale)
        _above_0("fp8_gemm", f"{name}_scale", scale)
        step = 1 / _vector("fp8_gemm", f"{name}_scale", scale, x)
        return (x, step) if is_codes else _quantized(x, step, name)
    if is_codes:
        expected = f"the scale that made {name}"
        raise ArgumentError.from_library(
            f"fp8_gemm: {name}_scale is missing; expected {expected}, got None; pass what "
            "quantize_fp8 returned",
            "fp8_gemm", f"{name}_scale", expected, "None",
        )  # fmt: skip
    return _quantized(x, None, name)


def _quantized(x: Any, step: Any, name: str) -> tuple[Any, Any]:
    """Codes of floats and their step, which is computed if None."""
    turned = name == "b" and len(x.shape) == 2
    rows = x.swapaxes(0, 1) if turned else x
    try:
        if step is None:
            q, found = _quantize_tensor(rows, "f8e4m3")
            step = found.reshape((1,))
        else:
            q = _quantize_static(rows, step.reshape(()), "f8e4m3")
    except Error as error:
        names = {"x": name, "scale": f"{name}_scale"}
        raise renamed(error, "fp8_gemm", names.get(error.argument, ""), names) from error
    return (q.swapaxes(0, 1) if turned else q), step


def _one(op: str, name: str, scale: Any) -> None:
    """Refuses a scale that is neither a number nor an array of one element."""
    number = isinstance(scale, (int, float))  # a traced one has no attributes
    shape = () if number else tuple(getattr(scale, "shape", ()))
    if all(size == 1 for size in shape):
        return
    raise ShapeMismatchError.from_library(
        f"{op}: {name} has several elements; expected one for all, got {shape}",
        op, name, "()", str(shape),
    )  # fmt: skip


def _above_0(op: str, name: str, scale: Any) -> None:
    """Refuses a number that is not finite and above 0; the values of arrays are not read."""
    if isinstance(scale, (int, float)) and not 0 < scale < math.inf:
        expected = "a number above 0"
        raise ArgumentError.from_library(
            f"{op}: {name} is no scale; expected {expected}, got {scale}",
            op, name, expected, str(scale),
        )  # fmt: skip


_CODES = {"i8": ("int8", "i8"), "f8e4m3": ("float8_e4m3fn", "f8e4m3")}


def _codes_are(op: str, code: str, a: Any, b: Any) -> None:
    """Refuses other dtypes than ``code``; the operator itself takes both f8e4m3 and i8."""
    for name, x in (("a", a), ("b", b)):
        dtype = str(getattr(x, "dtype", "")).rpartition(".")[2]
        if dtype and dtype not in _CODES[code]:
            hint = "; scaled_mm takes both" if any(dtype in of for of in _CODES.values()) else ""
            raise UnsupportedDtypeError.from_library(
                f"{op}: {name} has an unsupported dtype; expected {code}, got {dtype}{hint}",
                op, name, code, dtype,
            )  # fmt: skip


def _steps(op: str, a: Any, b: Any, **scales: Any) -> tuple[Any, Any]:
    """Scales of the rows of a as ``[*M, 1]``, and of the columns of b as ``[N]``."""
    (name_a, of_a), (name_b, of_b) = scales.items()
    scale, lead = _vector(op, name_a, of_a, a), tuple(a.shape[:-1])
    if scale.shape[0] == 1:
        rows = _one_for_rows(scale, lead)
    else:
        count: Any = 1
        for size in lead:
            count = count * size
        # The operator refuses a wrong number of scales.
        rows = scale.reshape((*lead, 1) if scale.shape[0] == count else (-1, 1))
    return rows, _vector(op, name_b, of_b, b)


def _one_for_rows(scale: Any, lead: tuple[Any, ...]) -> Any:
    """One scale for all rows: a view ``[*M, 1]`` of stride 0."""
    if hasattr(scale, "expand"):
        return scale.expand(*lead, 1)
    import numpy as np

    return np.broadcast_to(scale, (*lead, 1))


def _vector(op: str, name: str, scale: Any, like: Any) -> Any:
    """Scales of any shape as ``[count]``; a number as f32 ``[1]`` on the device of ``like``."""
    number = isinstance(scale, (int, float))
    if not number and hasattr(scale, "reshape"):
        return scale.reshape((-1,))
    if not number:
        expected, got = "a number or an array of scales", _said(scale)
        raise ArgumentTypeError.from_library(
            f"{op}: {name} is neither a number nor an array; expected {expected}, got {got}",
            op, name, expected, got,
        )  # fmt: skip
    if hasattr(like, "new_full"):
        import torch

        return torch.full((1,), scale, dtype=torch.float32, device=like.device)
    import numpy as np

    return np.full((1,), scale, dtype=np.float32)


def _said(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def linear(
    x: Any, weight: Any, bias: Any = None, activation: str = "", *, residual: Any = None,
    row_scale: Any = None, column_scale: Any = None, out_dtype: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """A linear layer with scales, bias, activation and residual.

    ``y = act(row_scale · column_scale · (x · weightᵀ) + bias) + residual``.

    x ``[*T, K]``, weight ``[N, K]`` as torch.nn.Linear stores it, bias ``[N]``, residual
    ``[*T, N]`` of x's dtype or f32, row_scale ``[*T]`` or ``[*T, 1]`` and column_scale ``[N]`` of
    f32 -> y ``[*T, N]``. Calls ``matmul`` with the transposed weight, without a copy; with a
    residual or a scale, ``linear_residual``. Everything is applied to the f32 sum, and y is rounded
    once. ``out`` is the destination; it may be ``residual``. Leading dimensions are rows; where no
    view joins them (a transposed batch) x is copied. Dtypes, activations (``relu``,
    ``leaky_relu``, ``gelu``, ``silu``), numerics, errors and gradients, of all tensors, are those
    of ``matmul``. Source: torch.nn.functional.linear.
    """
    need("linear", x=x, weight=weight)
    if len(weight.shape) != 2:
        expected, got = "[N, K]", str(tuple(weight.shape))
        raise ShapeMismatchError.from_library(
            f"linear: weight is no matrix; expected {expected}, got {got}",
            "linear", "weight", expected, got,
        )  # fmt: skip
    if tuple(x.shape[-1:]) != tuple(weight.shape[1:]):
        rows = tuple(x.shape)
        expected, got = f"[N, {rows[-1] if rows else 'K'}]", str(tuple(weight.shape))
        raise ShapeMismatchError.from_library(
            f"linear: weight does not fit x {rows}; expected {expected}, got {got}; "
            "weight is [out_features, in_features], as torch.nn.Linear keeps it",
            "linear", "weight", expected, got,
        )  # fmt: skip
    x = as_rows(x)
    if residual is None and row_scale is None and column_scale is None:
        return _matmul(x, weight.T, activation, bias=bias, out_dtype=out_dtype, out=out)
    lead = tuple(x.shape[:-1])
    if hasattr(row_scale, "reshape") and tuple(row_scale.shape) == lead:
        row_scale = row_scale.reshape((*lead, 1))
    if row_scale is not None:
        row_scale = as_rows(row_scale)
    if residual is not None and out is not residual:
        residual = as_rows(residual)
    elif residual is not None and out_dtype is None:
        out_dtype = residual.dtype
    return _linear_residual(
        x, weight, activation, bias=bias, residual=residual, row_scale=row_scale,
        column_scale=column_scale, out_dtype=out_dtype, out=out,
    )  # fmt: skip


def grouped_gemm(
    a: Any,
    b: Any,
    offsets: Any = None,
    *,
    masked_m: Any = None,
    rows: Any = None,
    a_scale: Any = None,
    b_scale: Any = None,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """Products of groups of rows, each group with its own matrix, in one launch.

    The shapes and ``rows`` select one of four forms:

    - a ``[M, K]``, b ``[E, N, K]``, offsets ``[E + 1]`` -> ``[M, N]``: group e is rows
      ``offsets[e]`` to ``offsets[e + 1] - 1``, adjacent as ``moe_permute`` stores them:
      ``out[m] = a[m] · b[e]ᵀ`` (``grouped_gemm_rows``). Has a gradient in torch, which is 0 for
      rows in no group;
    - a ``[T, K]``, b ``[E, N, K]``, offsets ``[E + 1]``, rows ``[M]`` -> ``[M, N]``: the same with
      row ``rows[m]`` of a, so that nothing copies rows into the order of groups:
      ``out[m] = a[rows[m]] · b[e]ᵀ`` (``grouped_gemm_gathered``). A row may be named many times;
      where ``rows[m]`` is -1, zeros take its place. ``moe_sort`` lists the rows of the first
      product of experts. Has a gradient in torch;
    - a ``[E, M, K]``, b ``[E, N, K]``, masked_m ``[E]`` -> ``[E, M, N]``: group e is the first
      ``masked_m[e]`` rows of ``a[e]``: ``out[e, m] = a[e, m] · b[e]ᵀ`` (``grouped_gemm_masked``);
    - a ``[M, N]``, b ``[M, K]``, offsets ``[E + 1]`` -> ``[E, N, K]``: sums over each group's rows,
      the gradient of its matrix: ``out[e] = Σ a[m]ᵀ · b[m]`` (``grouped_gemm_k``). Has a
      gradient in torch.

    With f32 scales they take f8 codes, and out is bf16 by default: ``(a_scale · b_scale)`` times
    the products of each 128 terms, accumulated in f32. Rows in groups and masked want ``a_scale``
    ``[M, ceil(K/128)]`` (masked ``[E, M, ceil(K/128)]``) and ``b_scale``
    ``[E, ceil(N/128), ceil(K/128)]`` (``grouped_gemm_rows_block``, ``grouped_gemm_masked_block``);
    the last, ``[ceil(M/128), N]`` and ``[ceil(M/128), K]``: row m has the scales ``m // 128``,
    whatever its group (``grouped_gemm_k_block``). Gathered rows take no scales.

    Matrices have the layout of a linear layer's weight; pass ``[E, K, N]`` as
    ``b.transpose(1, 2)``: any strides are accepted. Groups may be empty. f32, f16 or bf16 without
    scales; sums in f32, one rounding; the same results in every run. Rows in no group are not
    written. Offsets, counts and rows, i32 or i64, stay on the device: nothing waits for a GPU to
    read them, and the launch does not depend on them. ``out``: the destination. Errors:
    ArgumentError for both offsets and masked_m or neither, for only one scale, and for rows with
    masked_m, scales or a b ``[M, K]``; ShapeMismatchError and the operators' other errors. Source:
    Gale et al., MegaBlocks, 2022; DeepGEMM, 2025.
    """
    need("grouped_gemm", a=a, b=b)
    if (offsets is None) == (masked_m is None):
        got = "neither" if offsets is None else "both"
        raise ArgumentError.from_library(
            f"grouped_gemm: offsets is ambiguous; expected offsets or masked_m, got {got}",
            "grouped_gemm", "offsets", "offsets or masked_m", got,
        )  # fmt: skip
    if rows is not None:
        beside = {"masked_m": masked_m, "a_scale": a_scale, "b_scale": b_scale}
        others = [name for name, given in beside.items() if given is not None]
        if others or len(b.shape) == 2:
            got = others[0] if others else "b [M, K]"
            raise ArgumentError.from_library(
                f"grouped_gemm: rows is not offered here; expected offsets and b [E, N, K] alone "
                f"beside it, got {got}",
                "grouped_gemm", "rows", "offsets and b [E, N, K] alone beside it", got,
            )  # fmt: skip
        return _grouped_gathered(a, b, offsets, rows, out_dtype=out_dtype, out=out)
    if (a_scale is None) != (b_scale is None):
        missing = "a_scale" if a_scale is None else "b_scale"
        raise ArgumentError.from_library(
            f"grouped_gemm: {missing} is missing; expected both scales or none, got one",
            "grouped_gemm", missing, "both scales or none", "one",
        )  # fmt: skip
    if a_scale is not None:
        if masked_m is not None:
            scaled, sizes = _grouped_masked_block, masked_m
        else:
            scaled = _grouped_k_block if len(b.shape) == 2 else _grouped_rows_block
            sizes = offsets
        return scaled(a, b, sizes, a_scale, b_scale, out_dtype=out_dtype, out=out)
    if masked_m is not None:
        return _grouped_masked(a, b, masked_m, out_dtype=out_dtype, out=out)
    form = _grouped_k if len(b.shape) == 2 else _grouped_rows
    return form(a, b, offsets, out_dtype=out_dtype, out=out)
