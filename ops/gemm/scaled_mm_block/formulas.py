"""scaled_mm_block in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/gemm/scaled/scaled_ref.hpp,
docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .gemm_formulas import scaled  # ops/gemm/formulas.py, as it is staged


def scaled_mm_block(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    a, b = tensors["a"], tensors["b"]
    rows = tensors["a_scale"].astype(np.float32)
    blocks = tensors["b_scale"].astype(np.float32)
    out = scaled(a, b.T, rows, blocks.T)
    return (out + tensors["bias"] if "bias" in tensors else out,)


FORMULAS = {"scaled_mm_block": scaled_mm_block}
