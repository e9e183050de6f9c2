"""rms_norm in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++; `rounding` rounds to x's dtype. Read next:
ops/norm/rms_norm/rms_norm_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

from .norm_formulas import normalise  # ops/norm/formulas.py, as it is staged


def rms_norm(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    return (normalise(tensors["x"], tensors.get("weight"), scalars, rounding),)


FORMULAS = {"rms_norm": rms_norm}
