"""mm_w8a16_group in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: mm_w8a16_group_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def mm_w8a16_group(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, q = np.asarray(tensors["x"]), np.asarray(tensors["qweight"], np.float64)
    scale, group, depth = np.asarray(tensors["scale"]), scalars["group"], q.shape[1]
    if depth <= group:
        y = x @ q.T * (scale[:, 0] if depth else 1)
    else:
        weight = (q * np.repeat(scale, group, axis=1)[:, :depth]).astype(np.float32)
        y = x @ rounding(weight.astype(np.float64)).T
    return (y if tensors.get("bias") is None else y + tensors["bias"],)


FORMULAS = {"mm_w8a16_group": mm_w8a16_group}
