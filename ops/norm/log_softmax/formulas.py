"""log_softmax in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: log_softmax_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def log_softmax(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    x = tensors["x"]
    if x.shape[-1] == 0:
        return (x,)
    below = x - np.max(x, axis=-1, keepdims=True)
    return (below - np.log(np.sum(np.exp(below), axis=-1, keepdims=True)),)


FORMULAS = {"log_softmax": log_softmax}
