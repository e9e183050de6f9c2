"""Formulas shared by this family, in NumPy and f64. Written from the contract, not from the C++.

Read next: gated_linear/formulas.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def gate(x: Any, activation: str) -> Any:
    if activation == "relu":
        return np.where(np.isnan(x), x, np.maximum(x, 0.0))
    if activation == "gelu":
        return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))
    if activation == "gelu_tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return x / (1.0 + np.exp(-x))


def linear(x: Any, weight: Any) -> Any:
    # einsum sums every term; BLAS may skip zeros and so lose a NaN.
    return np.einsum("...k,nk->...n", x, weight)


def normed(x: Any, gain: Any, eps: float) -> Any:
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * gain
