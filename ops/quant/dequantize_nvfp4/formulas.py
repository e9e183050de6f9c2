"""dequantize_nvfp4 in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/quant/mx_values_ref.hpp,
docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .quant_formulas import unpacked  # ops/quant/formulas.py, as it is staged


def dequantize_nvfp4(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    v = unpacked(tensors["q"])
    scale = np.repeat(tensors["scale"], 16, axis=-1)[..., : v.shape[-1]]
    # v · scale is exact in f32; the contract's products are f32, so the second one rounds.
    y = (v * scale).astype(np.float32) * tensors["global_scale"].astype(np.float32)
    return (y.astype(np.float64),)


FORMULAS = {"dequantize_nvfp4": dequantize_nvfp4}
