"""quantize_mxfp8 once more, in NumPy: what the oracle itself is checked against.

Written from the contract, not from the C++. Read next: ops/quant/mx_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def largest(x: Any, group: int) -> Any:
    """The largest |x| of each block."""
    starts = np.arange(0, x.shape[-1], group)
    if len(starts) == 0:
        return x
    return np.maximum.reduceat(np.abs(x), starts, axis=-1)


def mx_scale(x: Any, top: int) -> Any:
    amax = largest(x, 32)
    with np.errstate(all="ignore"):
        power = np.maximum(np.exp2(np.floor(np.log2(amax)) - top), 2.0**-127)
    return np.where(np.isfinite(amax), power, np.nan)


def quantize_mxfp8(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, scale = tensors["x"], mx_scale(tensors["x"], 8)
    return x / np.repeat(scale, 32, axis=-1)[..., : x.shape[-1]], scale


FORMULAS = {"quantize_mxfp8": quantize_mxfp8}
