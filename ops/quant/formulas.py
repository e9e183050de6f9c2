"""Shared by the formulas of 4-bit codes and of power-of-two scales, in NumPy. Written from the
contract, not from the C++. Read next: quantize_mxfp4/formulas.py, dequantize_mxfp4/formulas.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


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
    """The nearest codes, ties to the even code, two per byte."""
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    middles = (values[1:] + values[:-1]) / 2
    size = np.abs(np.nan_to_num(v.astype(np.float64), nan=np.inf))
    up, down = np.searchsorted(middles, size, "right"), np.searchsorted(middles, size, "left")
    code = np.where(up % 2 == 0, up, down) + 8 * (np.signbit(v) & ~np.isnan(v))
    return (code[..., ::2] + 16 * code[..., 1::2]).astype(np.float64)


def unpacked(q: Any) -> Any:
    codes = np.asarray(q).astype(np.int64)
    pairs = np.stack([VALUES[codes % 16], VALUES[codes // 16]], axis=-1)
    return (
        pairs.reshape((*codes.shape[:-1], -1))
        if codes.size
        else np.zeros((*codes.shape[:-1], 2 * codes.shape[-1]))
    )
