"""softmax_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: softmax_backward_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def softmax_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    dy, y = tensors["dy"], tensors["y"]
    return (y * (dy - np.sum(dy * y, axis=-1, keepdims=True)),)


FORMULAS = {"softmax_backward": softmax_backward}
