"""fused_rotary_emb in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: fused_rotary_emb_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def fused_rotary_emb(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    frequency = tensors["inv_freq"]
    scaled = tensors["position_ids"].astype(frequency.dtype) / scalars["scaling_factor"]
    angles = scaled[..., None, None] * frequency
    cos, sin = np.cos(angles), np.sin(angles)

    def rotated(x: Any) -> Any:
        if scalars["style"] == "neox":
            low, high = np.split(x, 2, axis=-1)
        else:
            low, high = x[..., 0::2], x[..., 1::2]
        low, high = low * cos - high * sin, high * cos + low * sin
        if scalars["style"] == "interleaved":
            return np.stack([low, high], axis=-1).reshape(x.shape)
        return np.concatenate([low, high], axis=-1)

    return rotated(tensors["q"]), rotated(tensors["k"])


FORMULAS = {"fused_rotary_emb": fused_rotary_emb}
