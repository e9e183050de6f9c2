"""grouped_gemm_masked in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++; rows beyond an expert's count are 0, not compared.
Read next: ops/gemm/grouped/grouped_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def grouped_gemm_masked(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    a, weight, counts = tensors["a"], tensors["weight"], tensors["masked_m"].astype(np.int64)
    out = np.zeros((*a.shape[:2], weight.shape[1]))
    for e, count in enumerate(counts):
        out[e, :count] = np.einsum("mk,nk->mn", a[e, :count], weight[e])
    return (out,)


FORMULAS = {"grouped_gemm_masked": grouped_gemm_masked}
