"""gptq_dequantize in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/w4/weights_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def nibbles(words: Any) -> Any:
    bits = np.asarray(words).astype(np.int64) & 0xFFFFFFFF
    return np.stack([bits // 16**i % 16 for i in range(8)], axis=-1).astype(float)


def gptq_dequantize(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    scales, zeros = np.asarray(tensors["scales"]), tensors.get("qzeros")
    groups, columns = scales.shape
    words = tensors["qweight"]
    q = np.moveaxis(nibbles(words), -1, 1).reshape(8 * words.shape[0], columns)
    zero = np.full(scales.shape, 8.0)
    if zeros is not None:
        zero = nibbles(zeros).reshape(groups, zeros.shape[1] * 8)[:, :columns]
        zero = zero + (1 if scalars["zeros_minus_one"] else 0)
    each = scalars["group"]
    return ((q - np.repeat(zero, each, 0)) * np.repeat(scales, each, 0),)


FORMULAS = {"gptq_dequantize": gptq_dequantize}
