"""dequantize_mxfp4 once more, in NumPy: what the oracle itself is checked against.

Written from the contract, not from the C++. Read next: ops/quant/mx_values_ref.hpp,
docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def unpacked(q: Any) -> Any:
    codes = np.asarray(q).astype(np.int64)
    pairs = np.stack([VALUES[codes % 16], VALUES[codes // 16]], axis=-1)
    return (
        pairs.reshape((*codes.shape[:-1], -1))
        if codes.size
        else np.zeros((*codes.shape[:-1], 2 * codes.shape[-1]))
    )


def dequantize_mxfp4(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    v = unpacked(tensors["q"])
    return (v * np.repeat(tensors["scale"], 32, axis=-1)[..., : v.shape[-1]],)


FORMULAS = {"dequantize_mxfp4": dequantize_mxfp4}
