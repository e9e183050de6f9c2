"""scale_rows in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: scale_rows_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def single(v: Any) -> Any:
    """Rounded to f32."""
    return np.asarray(v).astype(np.float32).astype(np.float64)


def scale_rows(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    y = single(tensors["x"] * tensors["scale"])
    weight = tensors.get("weight")
    if weight is not None:
        if scalars["cast_before_weight"]:
            y = rounding(y)
        y = single(y * single(weight + single(scalars["weight_offset"])))
    return (rounding(y),)


FORMULAS = {"scale_rows": scale_rows}
