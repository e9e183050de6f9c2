"""awq_dequantize in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/w4/weights_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # columns, from the lowest bits up


def unpacked(words: Any) -> Any:
    bits = np.asarray(words).astype(np.int64) & 0xFFFFFFFF
    columns = np.zeros((*bits.shape, 8))
    for place, column in enumerate(ORDER):
        columns[..., column] = bits // 16**place % 16
    return columns.reshape(bits.shape[0], 8 * bits.shape[1])


def awq_dequantize(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q, scales = unpacked(tensors["qweight"]), np.asarray(tensors["scales"])
    zeros = tensors.get("qzeros")
    zero = np.full(scales.shape, 8.0) if zeros is None else unpacked(zeros)
    each = q.shape[0] // max(1, scales.shape[0])
    return ((q - np.repeat(zero, each, 0)) * np.repeat(scales, each, 0),)


FORMULAS = {"awq_dequantize": awq_dequantize}
