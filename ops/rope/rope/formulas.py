"""rope in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/rope/rotation_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def rope(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    rows = tensors["cos_sin_cache"][tensors["positions"].astype(np.int64)]
    cos, sin = np.split(rows[..., None, :], 2, axis=-1)
    turned = 2 * cos.shape[-1]

    def rotated(x: Any) -> Any:
        y = x.copy()
        apart = np.arange(turned).reshape(2, -1)
        near = apart.reshape(-1, 2).T  # neighbours
        low, high = apart if scalars["style"] == "neox" else near
        to_low, to_high = near if scalars["style"] == "interleaved" else apart
        y[..., to_low] = x[..., low] * cos - x[..., high] * sin
        y[..., to_high] = x[..., high] * cos + x[..., low] * sin
        return y

    return rotated(tensors["q"]), rotated(tensors["k"])


FORMULAS = {"rope": rope}
