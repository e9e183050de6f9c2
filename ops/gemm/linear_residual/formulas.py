"""linear_residual in NumPy and f64: an independent check of the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

from .gemm_formulas import ACTIVATIONS  # ops/gemm/formulas.py, as it is staged


def linear_residual(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    y = np.einsum("...k,nk->...n", tensors["x"], tensors["weight"])
    for name in ("row_scale", "column_scale"):
        if name in tensors:
            y = y * tensors[name]
    if "bias" in tensors:
        y = y + tensors["bias"]
    y = ACTIVATIONS[scalars["activation"]](y)
    return (y + tensors["residual"] if "residual" in tensors else y,)


FORMULAS = {"linear_residual": linear_residual}
