"""quantize_tensor in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. q is not rounded here; the comparison rounds it
to its dtype. Read next: ops/common/quant_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0, "i8": 127.0}


def quantize_tensor(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, dtype = tensors["x"], scalars["dtype"] or "f8e4m3"
    amax = np.max(np.abs(x), initial=0.0)
    scale = np.where(amax == 0, 1.0, np.maximum(amax / LARGEST[dtype], 2.0**-126))
    if scalars["scale_dtype"] == "ue8m0":
        scale = 2.0 ** np.ceil(np.log2(scale))
    return x / scale, scale


FORMULAS = {"quantize_tensor": quantize_tensor}
