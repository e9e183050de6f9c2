"""gelu_and_mul_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++; erfc(−v) = 1 + erf(v).
Read next: gelu_and_mul_backward_ref.hpp.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def gelu_and_mul_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    gate, up = np.split(tensors["x"], 2, axis=-1)
    dy, share = tensors["dy"], 0.5 * _erfc(-gate / math.sqrt(2.0))
    density = np.exp(-0.5 * gate * gate) / math.sqrt(2.0 * math.pi)
    return (np.concatenate([dy * up * (share + gate * density), dy * gate * share], axis=-1),)


FORMULAS = {"gelu_and_mul_backward": gelu_and_mul_backward}
