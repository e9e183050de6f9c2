"""dequantize_channel in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: dequantize_channel_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any


def dequantize_channel(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    return (tensors["q"] * tensors["scale"],)


FORMULAS = {"dequantize_channel": dequantize_channel}
