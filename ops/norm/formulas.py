"""What the formulas of rms_norm and add_rms_norm share, in NumPy and f64.

Read next: ops/norm/rms_norm/formulas.py, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def normalise(h: Any, weight: Any, scalars: dict[str, Any], rounding: Any) -> Any:
    if h.shape[-1] == 0:
        return h
    normed = h / np.sqrt(np.mean(np.square(h), axis=-1, keepdims=True) + scalars["eps"])
    # f32 is what it is computed in: nothing is cast there.
    if scalars["cast_before_weight"] and rounding.dtype.itemsize < 4:
        normed = rounding(normed)
    return normed * (weight + scalars["weight_offset"])
