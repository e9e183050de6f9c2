"""rms_norm_rope in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: rms_norm_rope_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def rms_norm_rope(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x = tensors["x"]
    mean = np.mean(x * x, axis=(-2, -1), keepdims=True)
    low, high = np.split(x / np.sqrt(mean + scalars["eps"]) * tensors["weight"], 2, axis=-1)
    half = x.shape[-1] // 2
    cos, sin = (tensors[name][..., None, :half] for name in ("cos", "sin"))
    return (np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1),)


FORMULAS = {"rms_norm_rope": rms_norm_rope}
