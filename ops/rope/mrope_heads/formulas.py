"""mrope_heads in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: mrope_heads_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def mrope_heads(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    table = tensors["cos_sin_cache"]
    pairs = table.shape[-1] // 2
    column = np.arange(pairs)
    angles = []
    for half in (table[:, :pairs], table[:, pairs:]):
        time, height, width = (
            half[tensors[name].astype(np.int64)] for name in ("time", "height", "width")
        )
        later = np.where(column < scalars["second"], height, width)
        angles.append(np.where(column < scalars["first"], time, later)[..., None, :])
    cos, sin = angles

    def rotated(x: Any) -> Any:
        y = x.copy()
        apart = np.arange(2 * pairs).reshape(2, -1)
        near = apart.reshape(-1, 2).T  # neighbours
        low, high = apart if scalars["style"] == "neox" else near
        to_low, to_high = near if scalars["style"] == "interleaved" else apart
        y[..., to_low] = x[..., low] * cos - x[..., high] * sin
        y[..., to_high] = x[..., high] * cos + x[..., low] * sin
        return y

    return rotated(tensors["q"]), rotated(tensors["k"])


FORMULAS = {"mrope_heads": mrope_heads}
