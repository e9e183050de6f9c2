"""silu_mul in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: silu_mul_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def silu_mul(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    gate = tensors["gate"] / (1.0 + np.exp(-tensors["gate"]))
    # The operator computes in f32: with f32 tensors there is nothing to round.
    if scalars["cast_before_mul"] and rounding.dtype.itemsize < 4:
        gate = rounding(gate)
    return (gate * tensors["up"],)


FORMULAS = {"silu_mul": silu_mul}
