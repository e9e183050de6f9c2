"""add_layer_norm in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: add_layer_norm_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

from .layer_norm_formulas import layer_norm


def add_layer_norm(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    h = rounding(tensors["x"] + tensors["residual"])
    return (*layer_norm({**tensors, "x": h}, scalars, rounding), h)


FORMULAS = {"add_layer_norm": add_layer_norm}
