"""``dlblas.silu_and_mul_quant``: the gated product in 8 bits, dispatched by scale granularity.

In: arrays of any package that the operators accept. Out: the results of this family's operators;
this module computes nothing, and torch.compile traces through it. Read next:
silu_and_mul_quant_token/, silu_and_mul_quant_group/, silu_and_mul_quant_static/,
silu_and_mul_quant_masked/.
"""

from __future__ import annotations

from typing import Any

from .._dtypes import name_of
from .._functions import FUNCTIONS
from .._granularity import GROUPS, check_codes, check_granularity, with_scale
from ..errors import ArgumentError, ShapeMismatchError, UnsupportedDtypeError

__all__ = ["silu_and_mul_quant"]

_silu_and_mul = FUNCTIONS["silu_and_mul"].call
_quantize_tensor = FUNCTIONS["quantize_tensor"].call
_token = FUNCTIONS["silu_and_mul_quant_token"].call
_group = FUNCTIONS["silu_and_mul_quant_group"].call
_static = FUNCTIONS["silu_and_mul_quant_static"].call
_masked = FUNCTIONS["silu_and_mul_quant_masked"].call
_OP = "silu_and_mul_quant"


def silu_and_mul_quant(
    x: Any,
    granularity: str = "token",
    *,
    scale: Any = None,
    dtype: Any = "f8e4m3",
    masked_m: Any = None,
    out: Any = None,
) -> tuple[Any, Any]:
    """Gates and quantises in one pass: ``(q, scale)`` with ``y ≈ q · scale``.

    ``y = silu(x[:F]) · x[F:]`` in f32, never rounded to x's dtype; ``q = y / scale`` rounded to
    nearest even and saturated; ``largest`` is 448 (f8e4m3), 57344 (f8e5m2) or 127 (i8).

    x ``[*T, 2F]`` is f32, f16 or bf16; q ``[*T, F]`` has ``dtype``; scale is f32. ``granularity``
    says which elements share a scale, and so the shape of scale:

    - ``"token"``: one scale per row, ``scale = max |y| / largest``, ``[*T, 1]``
      (``silu_and_mul_quant_token``);
    - ``"group32"``, ``"group64"``, ``"group128"``: one per group of neighbouring columns, the last
      of which may be narrower: ``[*T, ceil(F / group)]`` (``silu_and_mul_quant_group``);
    - ``"tensor"``: one for all of x: ``scale``, a calibrated tensor of shape ``[]`` or a number,
      which is returned unchanged (``silu_and_mul_quant_static``). Without it, the scale is found
      over all rows in a second pass, and y is rounded to x's dtype between: ``silu_and_mul``, then
      ``quantize(y, "tensor")``.

    With ``masked_m`` ``[E]``, i32 or i64, x is ``[E, M, 2F]`` and expert e has the first
    ``masked_m[e]`` rows; q and scale are undefined in the others. With groups those rows are
    neither read nor written (``silu_and_mul_quant_masked``); ``"token"`` and ``"tensor"`` compute
    them with the rest. Nothing waits for a GPU to read the counts.

    ``out=(q, scale)`` receives the results, with a copy of a given scale. A row or group of zeros
    has the scale 1. No gradient. Errors: ArgumentError for another granularity, a scale with
    another granularity than ``"tensor"``, or none with that and ``masked_m``; ShapeMismatchError
    and UnsupportedDtypeError for an invalid ``masked_m``; those of the operators. Source: Shazeer,
    2020; Micikevicius et al., FP8 Formats for Deep Learning, 2022.
    """
    check_granularity(_OP, granularity, scale)
    if masked_m is not None:
        if granularity in GROUPS:
            return _masked(x, masked_m, GROUPS[granularity], dtype, out=out)
        _check_counts(x, masked_m)
    if granularity == "tensor" and scale is None:
        if masked_m is not None:
            expected = "a scale with masked_m: one of all rows would read those that hold nothing"
            raise ArgumentError.from_library(
                f"{_OP}: scale is missing; expected {expected}, got None",
                _OP, "scale", expected, "None",
            )  # fmt: skip
        codes, shape = dtype or "f8e4m3", (*x.shape[:-1], x.shape[-1] // 2)
        places = check_codes(_OP, out, ("q", "scale"), x, shape, codes)
        made: tuple[Any, Any] = _quantize_tensor(_silu_and_mul(x), codes, out=places)
        return made if out is None else out
    if granularity == "tensor":
        return with_scale(_OP, lambda to: _static(x, scale, dtype, out=to), scale, out)
    if granularity == "token":
        return _token(x, dtype, out=out)
    return _group(x, GROUPS[granularity], dtype, out=out)


def _check_counts(x: Any, masked_m: Any) -> None:
    """Checks masked_m as the masked operator does, for the operators that do not read it."""
    shape = tuple(x.shape)
    if len(shape) != 3 or tuple(masked_m.shape) != shape[:1]:
        name, expected, got = (
            ("x", "[E, M, 2F] with masked_m", shape) if len(shape) != 3
            else ("masked_m", f"{shape[:1]}, one for each of x's experts", tuple(masked_m.shape))
        )  # fmt: skip
        raise ShapeMismatchError.from_library(
            f"{_OP}: {name} has another shape; expected {expected}, got {got}",
            _OP, name, expected, str(got),
        )  # fmt: skip
    if name_of(masked_m.dtype) not in ("i32", "i64"):
        expected, given = "i32, i64", name_of(masked_m.dtype) or str(masked_m.dtype)
        raise UnsupportedDtypeError.from_library(
            f"{_OP}: masked_m has dtype {given}; expected {expected}, got {given}",
            _OP, "masked_m", expected, given,
        )  # fmt: skip
