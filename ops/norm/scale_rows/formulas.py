"""scale_rows once more, in NumPy: what the oracle itself is checked against.

Written from the contract, not from the C++. Read next: scale_rows_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def scale_rows(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    y = (tensors["x"] * tensors["scale"]).astype(np.float32).astype(np.float64)
    weight = tensors.get("weight")
    if weight is None:
        return (y,)
    if scalars["cast_before_weight"]:
        y = rounding(y)
    factor = weight.astype(np.float32) + np.float32(scalars["weight_offset"])
    return (y * factor.astype(np.float64),)


FORMULAS = {"scale_rows": scale_rows}
