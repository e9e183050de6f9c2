"""quantize_static in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. q is not rounded here; the comparison rounds it
to its dtype. Read next: ops/common/quant_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any


def quantize_static(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    return (tensors["x"] / tensors["scale"],)


FORMULAS = {"quantize_static": quantize_static}
