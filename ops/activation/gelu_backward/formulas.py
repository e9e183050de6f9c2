"""gelu_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: gelu_backward_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def gelu_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x = tensors["x"]
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return (tensors["dy"] * (0.5 * _erfc(-x / math.sqrt(2.0)) + x * density),)


FORMULAS = {"gelu_backward": gelu_backward}
