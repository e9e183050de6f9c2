"""grouped_gemm_gathered in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++; rows outside every group are 0 and are not compared.
Read next: ops/gemm/grouped/grouped_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def grouped_gemm_gathered(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    a, weight = tensors["a"], tensors["weight"]
    offsets, rows = (tensors[name].astype(np.int64) for name in ("offsets", "rows"))
    gathered = np.zeros((len(rows), a.shape[1]))
    named = (rows >= 0) & (rows < len(a))
    gathered[named] = a[rows[named]]
    out = np.zeros((len(rows), weight.shape[1]))
    for e, matrix in enumerate(weight):
        group = slice(offsets[e], offsets[e + 1])
        # Plain sums: BLAS may skip zeros.
        out[group] = np.einsum("mk,nk->mn", gathered[group], matrix)
    return (out,)


FORMULAS = {"grouped_gemm_gathered": grouped_gemm_gathered}
