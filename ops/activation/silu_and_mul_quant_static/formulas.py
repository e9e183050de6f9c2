"""silu_and_mul_quant_static in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. q is not rounded here: the comparison rounds it to
its dtype. Read next: ops/activation/gated_codes_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def silu_and_mul_quant_static(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    gate, up = np.split(tensors["x"], 2, axis=-1)
    y = gate / (1.0 + np.exp(-gate)) * up
    return (y / tensors["scale"],)


FORMULAS = {"silu_and_mul_quant_static": silu_and_mul_quant_static}
