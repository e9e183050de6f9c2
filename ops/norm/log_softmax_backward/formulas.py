"""log_softmax_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: log_softmax_backward_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def log_softmax_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    dy = tensors["dy"]
    return (dy - np.exp(tensors["y"]) * np.sum(dy, axis=-1, keepdims=True),)


FORMULAS = {"log_softmax_backward": log_softmax_backward}
