"""rms_norm_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++; `rounding` rounds to x's dtype. Read next:
ops/norm/rms_norm_backward/rms_norm_backward_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def rms_norm_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    """Applies the Jacobian of x/rms(x), (1 − n·nᵀ/C)/rms(x), unlike the C++."""
    dy, x, weight = tensors["dy"], tensors["x"], tensors.get("weight", np.ones(1))
    width = x.shape[-1]
    if width == 0:
        return x, np.zeros(0)
    rms = np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + scalars["eps"])
    normed = x / rms
    g = dy * (weight + scalars["weight_offset"])
    dx = (g - normed * (np.sum(g * normed, axis=-1, keepdims=True) / width)) / rms
    if scalars["cast_before_weight"] and rounding.dtype.itemsize < 4:
        normed = rounding(normed)
    dweight = np.sum((dy * normed).reshape(-1, width), axis=0)
    return dx + tensors.get("dresidual", 0), dweight


FORMULAS = {"rms_norm_backward": rms_norm_backward}
