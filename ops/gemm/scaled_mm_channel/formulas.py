"""scaled_mm_channel in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/gemm/scaled/scaled_ref.hpp,
docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def scaled_mm_channel(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    rows = tensors["a_scale"][:, 0].astype(np.float32)
    columns = tensors["b_scale"].astype(np.float32)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        factors = np.multiply.outer(rows, columns).astype(np.float64)
        # einsum sums every term; BLAS may skip zeros and so lose a NaN.
        out = factors * np.einsum("mk,kn->mn", tensors["a"], tensors["b"])
    return (out + tensors["bias"] if "bias" in tensors else out,)


FORMULAS = {"scaled_mm_channel": scaled_mm_channel}
