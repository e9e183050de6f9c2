"""softmax in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: softmax_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def softmax(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    x = tensors["x"]
    if x.shape[-1] == 0:
        return (x,)
    power = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return (power / np.sum(power, axis=-1, keepdims=True),)


FORMULAS = {"softmax": softmax}
