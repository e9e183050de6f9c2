"""quantize_static once more, in NumPy and f64: what the oracle itself is checked against.

Written from the contract, not from the C++. q is not rounded here: what compares it rounds to its
dtype. Read next: ops/quant_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any


def quantize_static(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    return (tensors["x"] / tensors["scale"],)


FORMULAS = {"quantize_static": quantize_static}
