"""quantize_mxfp8 in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/quant/mx_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .quant_formulas import mx_scale  # ops/quant/formulas.py, as it is staged


def quantize_mxfp8(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, scale = tensors["x"], mx_scale(tensors["x"], 8)
    return x / np.repeat(scale, 32, axis=-1)[..., : x.shape[-1]], scale


FORMULAS = {"quantize_mxfp8": quantize_mxfp8}
