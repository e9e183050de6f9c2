"""Shared by the formulas of rms_norm, add_rms_norm and their 8-bit forms, in NumPy and f64.

Read next: ops/norm/rms_norm/formulas.py, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def normalise(h: Any, weight: Any, scalars: dict[str, Any], rounding: Any) -> Any:
    if h.shape[-1] == 0:
        return h
    normed = h / np.sqrt(np.mean(np.square(h), axis=-1, keepdims=True) + scalars["eps"])
    if weight is None:
        return normed
    # The operator computes in f32, so f32 values are not cast.
    if scalars["cast_before_weight"] and rounding.dtype.itemsize < 4:
        normed = rounding(normed)
    return normed * (weight + scalars["weight_offset"])


def normalised(h: Any, weight: Any, scalars: dict[str, Any]) -> Any:
    """``normalise`` without any rounding."""
    return normalise(h, weight, {**scalars, "cast_before_weight": False}, None)


def codes(y: Any, group: int) -> tuple[Any, Any]:
    """y / scale for f8e4m3, not rounded, and one scale per `group` columns."""
    starts = np.arange(0, y.shape[-1], group)
    if len(starts) == 0:
        return y, np.ones((*y.shape[:-1], 1))
    amax = np.maximum.reduceat(np.abs(y), starts, axis=-1)
    scale = np.where(amax == 0, 1.0, np.maximum(amax / 448.0, 2.0**-126))
    return y / np.repeat(scale, group, axis=-1)[..., : y.shape[-1]], scale
