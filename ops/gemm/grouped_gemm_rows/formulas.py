"""grouped_gemm_rows in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++; rows outside every group are 0 and are not compared.
Read next: ops/gemm/grouped/grouped_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def grouped_gemm_rows(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    a, weight = tensors["a"], tensors["weight"]
    offsets = tensors["offsets"].astype(np.int64)
    out = np.zeros((len(a), weight.shape[1]))
    for e, matrix in enumerate(weight):
        group = slice(offsets[e], offsets[e + 1])
        out[group] = np.einsum("mk,nk->mn", a[group], matrix)  # plain sums: BLAS may skip zeros
    return (out,)


FORMULAS = {"grouped_gemm_rows": grouped_gemm_rows}
