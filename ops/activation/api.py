"""``dlblas.silu_and_mul_quant``: the gated product in 8 bits, by the granularity of its scales.

In: arrays of any package that the operators take. Out: what the operators of this family return;
nothing is computed here, and torch.compile follows it. Read next: silu_and_mul_quant_token/,
silu_and_mul_quant_group/, silu_and_mul_quant_static/, silu_and_mul_quant_masked/.
"""

from __future__ import annotations

from typing import Any

from .._functions import FUNCTIONS
from .._granularity import GROUPS, check_granularity, with_scale
from ..errors import ArgumentError

__all__ = ["silu_and_mul_quant"]

_token = FUNCTIONS["silu_and_mul_quant_token"].call
_group = FUNCTIONS["silu_and_mul_quant_group"].call
_static = FUNCTIONS["silu_and_mul_quant_static"].call
_masked = FUNCTIONS["silu_and_mul_quant_masked"].call


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

    x ``[*T, 2F]`` is f32, f16 or bf16; q ``[*T, F]`` has ``dtype``; scale is f32. What has a scale
    of its own, ``granularity``, says scale's shape:

    - ``"token"``, a row: ``scale = max |y| / largest``, ``[*T, 1]``
      (``silu_and_mul_quant_token``);
    - ``"group32"``, ``"group64"``, ``"group128"``, neighbouring columns, of which the last group
      may have fewer: ``[*T, ceil(F / group)]`` (``silu_and_mul_quant_group``);
    - ``"tensor"``, all of x, with ``scale``, a tensor of shape ``[]`` or a number, as calibrated:
      returned as it is (``silu_and_mul_quant_static``). One that depends on all rows takes a second
      pass: ``silu_and_mul``, then ``quantize(y, "tensor")``.

    With ``masked_m`` ``[E]``, i32 or i64, and a granularity of groups, x is ``[E, M, 2F]``; expert
    e has the first ``masked_m[e]`` rows. Others are not read, nor written in q and scale
    (``silu_and_mul_quant_masked``). Nothing waits for a GPU to see the counts.

    ``out=(q, scale)`` is written; a scale that was given is copied there. A part of zeros alone has
    the scale 1. No gradient. Errors: ArgumentError for another granularity, ``"tensor"`` without a
    scale, a scale with another one, or ``masked_m`` without groups; those of the operators. Source:
    Shazeer, 2020; Micikevicius et al., FP8 Formats for Deep Learning, 2022.
    """
    check_granularity("silu_and_mul_quant", "silu_and_mul", granularity, scale)
    if masked_m is not None:
        if granularity in GROUPS:
            return _masked(x, masked_m, GROUPS[granularity], dtype, out=out)
        expected = "None with granularity " + repr(granularity)
        raise ArgumentError.from_library(
            f"silu_and_mul_quant: masked_m is given; expected {expected}; groups take it: "
            f"{', '.join(GROUPS)}",
            "silu_and_mul_quant", "masked_m", expected, type(masked_m).__name__,
        )  # fmt: skip
    if granularity == "tensor":
        return with_scale(lambda to: _static(x, scale, dtype, out=to), scale, out)
    if granularity == "token":
        return _token(x, dtype, out=out)
    return _group(x, GROUPS[granularity], dtype, out=out)
