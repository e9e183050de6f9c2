"""grouped_gemm_k_block in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: grouped_gemm_k_block_ref.hpp.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np


def grouped_gemm_k_block(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    a, b, offsets = tensors["a"], tensors["b"], tensors["offsets"].astype(np.int64)
    of_a, of_b = (tensors[name].astype(np.float32) for name in ("a_scale", "b_scale"))
    out = np.zeros((len(offsets) - 1, a.shape[1], b.shape[1]))
    rows = np.arange(len(a))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for matrix, (begin, end) in zip(out, pairwise(offsets), strict=True):
            for block in range(begin // 128, -(-end // 128) if begin < end else 0):
                mine = (rows >= begin) & (rows < end) & (rows // 128 == block)
                factors = np.multiply.outer(of_a[block], of_b[block]).astype(np.float64)
                matrix += factors * np.einsum("mn,mk->nk", a[mine], b[mine])
    return (out,)


FORMULAS = {"grouped_gemm_k_block": grouped_gemm_k_block}
