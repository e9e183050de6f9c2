"""grouped_gemm_masked_block in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++; rows beyond an expert's count are 0, not compared.
Read next: ops/gemm/grouped_block/grouped_block_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .gemm_formulas import scaled  # ops/gemm/formulas.py, as it is staged


def grouped_gemm_masked_block(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    a, weight = tensors["a"], tensors["weight"]
    rows, blocks = (tensors[name].astype(np.float32) for name in ("a_scale", "weight_scale"))
    sizes = tensors["masked_m"].astype(np.int64)
    out = np.zeros((*a.shape[:-1], weight.shape[1]))
    for e, matrix in enumerate(weight):
        group = (e, slice(0, sizes[e]))
        out[group] = scaled(a[group], matrix, rows[group], blocks[e])
    return (out,)


FORMULAS = {"grouped_gemm_masked_block": grouped_gemm_masked_block}
