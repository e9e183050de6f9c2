"""dequantize_mxfp4 in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/quant/mx_values_ref.hpp,
docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .quant_formulas import unpacked  # ops/quant/formulas.py, as it is staged


def dequantize_mxfp4(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    v = unpacked(tensors["q"])
    return (v * np.repeat(tensors["scale"], 32, axis=-1)[..., : v.shape[-1]],)


FORMULAS = {"dequantize_mxfp4": dequantize_mxfp4}
