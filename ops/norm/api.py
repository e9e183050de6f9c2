"""``dlblas.rms_norm_quant`` and ``dlblas.add_rms_norm_quant``: norms in 8 bits, by the granularity
of their scales.

In: arrays of any package that the operators take. Out: what the operators of this family return;
nothing is computed here, and torch.compile follows it. Read next: rms_norm_quant_token/,
rms_norm_quant_group/, rms_norm_quant_static/.
"""

from __future__ import annotations

from typing import Any

from .._functions import FUNCTIONS
from .._granularity import GROUPS, check_granularity

__all__ = ["add_rms_norm_quant", "rms_norm_quant"]

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
) -> tuple[Any, Any]:
    """Normalises and quantises to f8e4m3 in one pass: ``(q, scale)`` with ``y ≈ q · scale``.

    ``y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset)`` in f32, never rounded to x's
    dtype; ``q = y / scale`` rounded to nearest even and saturated at 448.

    x ``[*T, C]`` is f32, f16 or bf16, weight ``[C]`` x's dtype or f32; q has x's shape; scale is
    f32. What has a scale of its own, ``granularity``, says scale's shape:

    - ``"token"``, a row: ``scale = max |y| / 448``, ``[*T, 1]`` (``rms_norm_quant_token``);
    - ``"group32"``, ``"group64"``, ``"group128"``, neighbouring columns, of which the last group
      may have fewer: ``[*T, ceil(C / group)]`` (``rms_norm_quant_group``);
    - ``"tensor"``, all of x, with ``scale``, a tensor of shape ``[]`` or a number, as calibrated:
      returned as it is (``rms_norm_quant_static``). One that depends on all rows takes a second
      pass: ``rms_norm``, then ``quantize(y, "tensor")``.

    A part of zeros alone has the scale 1. No gradient. Errors: ArgumentError for another
    granularity, ``"tensor"`` without a scale, or a scale with another one; those of the operators.
    Source: Zhang and Sennrich, 2019; Micikevicius et al., FP8 Formats for Deep Learning, 2022.
    """
    check_granularity("rms_norm_quant", "rms_norm", granularity, scale)
    if granularity == "tensor":
        return _static(x, weight, scale, eps, weight_offset=weight_offset), scale
    if granularity == "token":
        return _token(x, weight, eps, weight_offset=weight_offset)
    return _group(x, weight, eps, weight_offset=weight_offset, group=GROUPS[granularity])


def add_rms_norm_quant(
    x: Any,
    weight: Any,
    residual: Any,
    eps: float = 1e-6,
    *,
    weight_offset: float = 0.0,
    granularity: str = "token",
    scale: Any = None,
) -> tuple[Any, Any, Any]:
    """Adds a residual, then as ``rms_norm_quant``: ``(q, scale, residual_out)``.

    ``h = round(x + residual)``, in x's dtype, is residual_out and what is normalised; residual
    ``[*T, C]`` has x's dtype. Shapes, granularities and errors are those of ``rms_norm_quant``;
    in place (residual_out over residual): ``add_rms_norm_quant_token_`` and the others.
    """
    check_granularity("add_rms_norm_quant", "add_rms_norm", granularity, scale)
    if granularity == "tensor":
        q, hidden = _add_static(x, weight, residual, scale, eps, weight_offset=weight_offset)
        return q, scale, hidden
    if granularity == "token":
        return _add_token(x, weight, residual, eps, weight_offset=weight_offset)
    group = GROUPS[granularity]
    return _add_group(x, weight, residual, eps, weight_offset=weight_offset, group=group)
