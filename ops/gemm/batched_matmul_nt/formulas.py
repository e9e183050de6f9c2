"""batched_matmul_nt once more, in NumPy and f64: what the oracle itself is checked against.

Written from the contract, not from the C++. Read next: ops/gemm/matmul/formulas.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "": lambda x: x,
    "relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, 0.0)),
    "leaky_relu": lambda x: np.where(x >= 0, x, x * 0.01),
    "gelu": lambda x: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
}


def batched_matmul_nt(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    # einsum sums plainly: BLAS may skip zeros, and with them NaN.
    product = np.einsum("bmk,bnk->bmn", tensors["a"], tensors["b"])
    if "bias" in tensors:
        product = product + tensors["bias"]
    return (_ACTIVATIONS[scalars["activation"]](product),)


FORMULAS = {"batched_matmul_nt": batched_matmul_nt}
