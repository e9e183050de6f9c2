"""add_rms_norm_quant_static in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. q is not rounded here; the comparison rounds it
to its dtype. Read next: ops/norm/rms_norm_quant_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

from .norm_formulas import normalised  # ops/norm/formulas.py, as it is staged


def add_rms_norm_quant_static(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    h = rounding(tensors["x"] + tensors["residual"])
    y = normalised(h, tensors["weight"], scalars)
    return (y / tensors["scale"], h)


FORMULAS = {"add_rms_norm_quant_static": add_rms_norm_quant_static}
