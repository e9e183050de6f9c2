"""quantize_mxfp4 once more, in NumPy: what the oracle itself is checked against.

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


def packed(v: Any) -> Any:
    """The nearest codes, two a byte; on a tie the even code."""
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    middles = (values[1:] + values[:-1]) / 2
    size = np.abs(np.nan_to_num(v.astype(np.float64), nan=np.inf))
    up, down = np.searchsorted(middles, size, "right"), np.searchsorted(middles, size, "left")
    code = np.where(up % 2 == 0, up, down) + 8 * (np.signbit(v) & ~np.isnan(v))
    return (code[..., ::2] + 16 * code[..., 1::2]).astype(np.float64)


def quantize_mxfp4(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, scale = tensors["x"], mx_scale(tensors["x"], 2)
    return packed(x / np.repeat(scale, 32, axis=-1)[..., : x.shape[-1]]), scale


FORMULAS = {"quantize_mxfp4": quantize_mxfp4}
