"""dequantize_mxfp8 in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/quant/mx_values_ref.hpp,
docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def dequantize_mxfp8(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    scale = np.repeat(tensors["scale"], 32, axis=-1)
    return (tensors["q"] * scale[..., : tensors["q"].shape[-1]],)


FORMULAS = {"dequantize_mxfp8": dequantize_mxfp8}
