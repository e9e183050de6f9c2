"""mm_w4a16_awq in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/w4/weights_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # columns, from the lowest bits up


def unpacked(words: Any, columns: int) -> Any:
    bits = np.asarray(words).astype(np.int64) & 0xFFFFFFFF
    made = np.zeros((*bits.shape, 8))
    for place, column in enumerate(ORDER):
        made[..., column] = bits // 16**place % 16
    return made.reshape(bits.shape[0], columns)


def mm_w4a16_awq(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    scales, zeros = np.asarray(tensors["scales"]), tensors.get("zeros")
    each, columns = scalars["group"], scales.shape[1]
    q = unpacked(tensors["qweight"], columns)
    zero = np.full(scales.shape, 8.0)
    if zeros is not None:
        zero = unpacked(zeros, columns)
    weight = (q - np.repeat(zero, each, 0)) * np.repeat(scales, each, 0)
    return (np.asarray(tensors["x"]) @ rounding(weight),)


FORMULAS = {"mm_w4a16_awq": mm_w4a16_awq}
