"""batched_scaled_mm in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/gemm/scaled/scaled_ref.hpp,
docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def batched_scaled_mm(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    scales = (np.asarray(tensors[n]).reshape(()).astype(np.float32) for n in ("a_scale", "b_scale"))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        factor = np.float64(np.multiply(*scales))
        # einsum sums every term; BLAS may skip zeros and so lose a NaN.
        out = factor * np.einsum("bmk,bkn->bmn", tensors["a"], tensors["b"])
    return (out + tensors["bias"] if "bias" in tensors else out,)


FORMULAS = {"batched_scaled_mm": batched_scaled_mm}
