"""silu_and_mul_quant_token in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. q is not rounded here: the comparison rounds it to
its dtype. Read next: ops/activation/gated_codes_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0, "i8": 127.0}
TINY = 2.0**-126
NONE = 2.0**-151  # y is f32, which has nothing but zeros below


def silu_and_mul_quant_token(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    gate, up = np.split(tensors["x"], 2, axis=-1)
    y = gate / (1.0 + np.exp(-gate)) * up
    amax = np.max(np.abs(y), axis=-1, keepdims=True, initial=0.0)
    scale = np.where(
        amax < NONE, 1.0, np.maximum(amax / LARGEST[scalars["dtype"] or "f8e4m3"], TINY)
    )
    return y / scale, scale


FORMULAS = {"silu_and_mul_quant_token": silu_and_mul_quant_token}
