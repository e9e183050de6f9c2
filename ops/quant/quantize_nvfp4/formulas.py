"""quantize_nvfp4 in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/quant/mx_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .quant_formulas import largest, packed  # ops/quant/formulas.py, as it is staged


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
