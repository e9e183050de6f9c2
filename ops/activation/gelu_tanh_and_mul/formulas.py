"""gelu_tanh_and_mul in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Uses tanh in long double, wider than f64 where the
machine supports it, since 1 + tanh cancels below 0.
Read next: gelu_tanh_and_mul_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_ROOT = np.sqrt(2 / (4 * np.arctan(np.longdouble(1))))


def gelu_tanh_and_mul(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    gate, up = np.split(tensors["x"].astype(np.longdouble), 2, axis=-1)
    t = np.tanh(_ROOT * (gate + np.longdouble("0.044715") * gate**3))
    return ((0.5 * gate * (1 + t) * up).astype(np.float64),)


FORMULAS = {"gelu_tanh_and_mul": gelu_tanh_and_mul}
