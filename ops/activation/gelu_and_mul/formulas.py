"""gelu_and_mul in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++; erfc(−v) = 1 + erf(v).
Read next: gelu_and_mul_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def gelu_and_mul(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    gate, up = np.split(tensors["x"], 2, axis=-1)
    return (0.5 * gate * _erfc(-gate / math.sqrt(2.0)) * up,)


FORMULAS = {"gelu_and_mul": gelu_and_mul}
