"""group_norm_rows in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: group_norm_rows_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def group_norm_rows(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x = tensors["x"]
    if x.shape[-1] == 0:
        return (x,)
    group = np.arange(x.shape[-1]) // scalars["inner"]
    rows = np.arange(np.prod(x.shape[:-1], dtype=int)).reshape(x.shape[:-1]) % scalars["groups"]
    difference = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(difference**2, axis=-1, keepdims=True)
    y = difference / np.sqrt(variance + scalars["eps"])
    if "weight" in tensors:
        y = y * tensors["weight"][rows][..., group]
    if "bias" in tensors:
        y = y + tensors["bias"][rows][..., group]
    return (y / (1 + np.exp(-y)) if scalars["activation"] else y,)


FORMULAS = {"group_norm_rows": group_norm_rows}
