"""add_rms_norm in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++; `rounding` rounds to x's dtype. Read next:
ops/norm/add_rms_norm/add_rms_norm_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

from .norm_formulas import normalise  # ops/norm/formulas.py, as it is staged


def add_rms_norm(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    h = rounding(tensors["x"] + tensors["residual"])
    return normalise(h, tensors.get("weight"), scalars, rounding), h


FORMULAS = {"add_rms_norm": add_rms_norm}
