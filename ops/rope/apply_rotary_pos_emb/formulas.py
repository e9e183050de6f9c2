"""apply_rotary_pos_emb in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/rope/rotation_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def apply_rotary_pos_emb(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    pairs = tensors["q"].shape[-1] // 2

    def halves(table: Any) -> tuple[Any, Any]:
        rows = table[..., None, :]  # the last Dh columns of Dh or of 2Dh
        return rows[..., :pairs], rows[..., rows.shape[-1] - pairs :]

    (cos_low, cos_high), (sin_low, sin_high) = halves(tensors["cos"]), halves(tensors["sin"])

    def term(x: Any, factor: Any) -> Any:
        # The operator computes in f32, so f32 values are not cast.
        if scalars["cast_before_sum"] and rounding.dtype.itemsize < 4:
            return rounding(x * factor)
        return x * factor

    def rotated(x: Any) -> Any:
        if scalars["style"] == "neox":
            low, high = np.split(x, 2, axis=-1)
        else:
            low, high = x[..., 0::2], x[..., 1::2]
        turned_low = term(low, cos_low) - term(high, sin_low)
        turned_high = term(high, cos_high) + term(low, sin_high)
        if scalars["style"] == "interleaved":
            return np.stack([turned_low, turned_high], axis=-1).reshape(x.shape)
        return np.concatenate([turned_low, turned_high], axis=-1)

    return rotated(tensors["q"]), rotated(tensors["k"])


FORMULAS = {"apply_rotary_pos_emb": apply_rotary_pos_emb}
