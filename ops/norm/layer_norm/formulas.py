"""layer_norm in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: layer_norm_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def layer_norm(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    x = tensors["x"]
    if x.shape[-1] == 0:
        return (x,)
    difference = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(difference**2, axis=-1, keepdims=True)
    y = difference / np.sqrt(variance + scalars["eps"])
    return (y * tensors.get("weight", 1.0) + tensors.get("bias", 0.0),)


FORMULAS = {"layer_norm": layer_norm}
