"""silu_mul_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: silu_mul_backward_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def silu_mul_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    dy, gate = tensors["dy"], tensors["gate"]
    s = 1.0 / (1.0 + np.exp(-gate))
    gated, value = dy * tensors["up"], gate * s
    # The operator computes in f32: with f32 tensors there is nothing to round.
    if scalars["cast_before_mul"] and rounding.dtype.itemsize < 4:
        gated, value = rounding(gated), rounding(value)
    return gated * s * (1.0 + gate * (1.0 - s)), dy * value


FORMULAS = {"silu_mul_backward": silu_mul_backward}
