"""gated_linear once more, in NumPy and f64: what the oracle itself is checked against.

Written from the contract, not from the C++. Read next: gated_linear_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gate(x: Any, activation: str) -> Any:
    if activation == "relu":
        return np.where(np.isnan(x), x, np.maximum(x, 0.0))
    if activation == "gelu":
        return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))
    if activation == "gelu_tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return x / (1.0 + np.exp(-x))


def gated_linear(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    # einsum sums plainly: BLAS may skip zeros, and with them NaN.
    gate = np.einsum("...k,fk->...f", tensors["x"], tensors["w_gate"])
    up = np.einsum("...k,fk->...f", tensors["x"], tensors["w_up"])
    return (_gate(gate, scalars["activation"]) * up,)


FORMULAS = {"gated_linear": gated_linear}
