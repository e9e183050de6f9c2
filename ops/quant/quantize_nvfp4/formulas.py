"""quantize_nvfp4 once more, in NumPy: what the oracle itself is checked against.

Written from the contract, not from the C++. Read next: ops/quant/mx_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def largest(x: Any, group: int) -> Any:
    """The largest |x| of each block."""
    starts = np.arange(0, x.shape[-1], group)
    if len(starts) == 0:
        return x
    return np.maximum.reduceat(np.abs(x), starts, axis=-1)


def packed(v: Any) -> Any:
    """The nearest codes, two a byte; on a tie the even code."""
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    middles = (values[1:] + values[:-1]) / 2
    size = np.abs(np.nan_to_num(v.astype(np.float64), nan=np.inf))
    up, down = np.searchsorted(middles, size, "right"), np.searchsorted(middles, size, "left")
    code = np.where(up % 2 == 0, up, down) + 8 * (np.signbit(v) & ~np.isnan(v))
    return (code[..., ::2] + 16 * code[..., 1::2]).astype(np.float64)


def quantize_nvfp4(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, whole = tensors["x"], np.float32(tensors["global_scale"])
    with np.errstate(all="ignore"):
        wanted = largest(x, 16).astype(np.float32) / (np.float32(6) * whole)
        scale = np.minimum(wanted, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
        factor = np.where(scale == 0, np.float32(0), np.float32(1) / (scale * whole))
        spread = np.repeat(factor, 16, axis=-1)[..., : x.shape[-1]]
        return packed(x.astype(np.float32) * spread), scale.astype(np.float64)


FORMULAS = {"quantize_nvfp4": quantize_nvfp4}
