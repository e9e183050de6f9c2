"""gated_linear_quant_group in NumPy and f64: an independent check of the oracle.

q is not rounded here: the comparison rounds it to its dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .mlp_formulas import gate, linear  # ops/mlp/formulas.py

TINY = 2.0**-126
NONE = 2.0**-151  # y is f32, which has nothing but zeros below


def gated_linear_quant_group(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x = tensors["x"]
    y = gate(linear(x, tensors["w_gate"]), "silu") * linear(x, tensors["w_up"])
    starts = np.arange(0, y.shape[-1], 128)
    if len(starts) == 0:
        return y, y
    amax = np.maximum.reduceat(np.abs(y), starts, axis=-1)
    scale = np.where(amax < NONE, 1.0, np.maximum(amax / 448.0, TINY))
    return y / np.repeat(scale, 128, axis=-1)[..., : y.shape[-1]], scale


FORMULAS = {"gated_linear_quant_group": gated_linear_quant_group}
