"""gelu_tanh_and_mul_backward in NumPy: an independent check of the oracle.

Written from the contract, not from the C++; in long double, wider than f64 where the machine
supports it. Read next: gelu_tanh_and_mul_backward_ref.hpp, ../gelu_tanh_and_mul/formulas.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_ROOT, _CUBE = np.sqrt(2 / (4 * np.arctan(np.longdouble(1)))), np.longdouble("0.044715")


def gelu_tanh_and_mul_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    gate, up = np.split(tensors["x"].astype(np.longdouble), 2, axis=-1)
    dy, t = tensors["dy"].astype(np.longdouble), np.tanh(_ROOT * (gate + _CUBE * gate**3))
    inner = _ROOT * (1 + 3 * _CUBE * gate**2)
    slope = 0.5 * (1 + t) + 0.5 * gate * (1 - t) * (1 + t) * inner
    dx = np.concatenate([dy * up * slope, dy * 0.5 * gate * (1 + t)], axis=-1)
    return (dx.astype(np.float64),)


FORMULAS = {"gelu_tanh_and_mul_backward": gelu_tanh_and_mul_backward}
