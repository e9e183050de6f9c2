"""gelu_tanh_backward in NumPy and long double: an independent check of the oracle.

Written from the contract, not from the C++. Read next: gelu_tanh_backward_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_ROOT = np.sqrt(2 / (4 * np.arctan(np.longdouble(1))))


def gelu_tanh_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x = tensors["x"].astype(np.longdouble)
    t = np.tanh(_ROOT * (x + np.longdouble("0.044715") * x**3))
    inner = _ROOT * (1 + 3 * np.longdouble("0.044715") * x * x)
    slope = 0.5 * ((1 + t) + x * (1 - t) * (1 + t) * inner)
    return ((tensors["dy"] * slope).astype(np.float64),)


FORMULAS = {"gelu_tanh_backward": gelu_tanh_backward}
