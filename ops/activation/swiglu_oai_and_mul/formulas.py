"""swiglu_oai_and_mul in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: swiglu_oai_and_mul_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def swiglu_oai_and_mul(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, alpha, limit = tensors["x"], scalars["alpha"], scalars["limit"]
    gate, up = (x[..., ::2], x[..., 1::2]) if scalars["interleaved"] else np.split(x, 2, axis=-1)
    gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return ((up + 1.0) * gate / (1.0 + np.exp(-alpha * gate)),)


FORMULAS = {"swiglu_oai_and_mul": swiglu_oai_and_mul}
