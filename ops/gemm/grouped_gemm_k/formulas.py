"""grouped_gemm_k in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/gemm/grouped/grouped_ref.hpp.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np


def grouped_gemm_k(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    a, b, offsets = tensors["a"], tensors["b"], tensors["offsets"].astype(np.int64)
    groups = [slice(begin, end) for begin, end in pairwise(offsets)]
    sums = [np.einsum("mn,mk->nk", a[g], b[g]) for g in groups]
    return (np.stack(sums) if sums else np.zeros((0, a.shape[1], b.shape[1])),)


FORMULAS = {"grouped_gemm_k": grouped_gemm_k}
