"""mm_w4a16_gptq in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/w4/weights_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def nibbles(words: Any) -> Any:
    bits = np.asarray(words).astype(np.int64) & 0xFFFFFFFF
    return np.stack([bits // 16**i % 16 for i in range(8)], axis=-1).astype(float)


def mm_w4a16_gptq(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    scales, zeros = np.asarray(tensors["scales"]), tensors.get("zeros")
    each, columns = scalars["group"], scales.shape[1]
    words = tensors["qweight"]
    q = np.moveaxis(nibbles(words), -1, 1).reshape(8 * words.shape[0], columns)
    zero = np.full(scales.shape, 8.0)
    if zeros is not None:
        zero = (
            nibbles(zeros).reshape(scales.shape[0], 8 * zeros.shape[1])[:, :columns]
            + scalars["zeros_minus_one"]
        )
    weight = (q - np.repeat(zero, each, 0)) * np.repeat(scales, each, 0)
    return (np.asarray(tensors["x"]) @ rounding(weight),)


FORMULAS = {"mm_w4a16_gptq": mm_w4a16_gptq}
