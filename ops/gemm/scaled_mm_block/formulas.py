"""scaled_mm_block once more, in NumPy and f64: what the oracle itself is checked against.

Written from the contract, not from the C++. Read next: ops/gemm/scaled/scaled_ref.hpp,
docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def scaled_mm_block(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    a, b = tensors["a"], tensors["b"]
    rows = tensors["a_scale"].astype(np.float32)
    blocks = tensors["b_scale"].astype(np.float32)
    out = np.zeros((a.shape[0], b.shape[1]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for group in range((a.shape[1] + 127) // 128):
            part = slice(128 * group, 128 * group + 128)
            columns = np.repeat(blocks[group], 128)[: b.shape[1]]
            factors = np.multiply.outer(rows[:, group], columns).astype(np.float64)
            out += factors * np.einsum("mk,kn->mn", a[:, part], b[part])
    return (out + tensors["bias"] if "bias" in tensors else out,)


FORMULAS = {"scaled_mm_block": scaled_mm_block}
