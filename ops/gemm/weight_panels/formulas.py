"""weight_panels in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ../formulas.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .gemm_formulas import places_in_panels  # ops/gemm/formulas.py, as it is staged


def weight_panels(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    weight = tensors["weight"]
    panels = np.empty(weight.size, weight.dtype)
    panels[places_in_panels(*weight.shape, rounding.dtype.name == "bfloat16")] = weight
    return (panels.reshape(weight.shape),)


FORMULAS = {"weight_panels": weight_panels}
