"""linear_panels in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ../weight_panels/formulas.py.
"""

from __future__ import annotations

from typing import Any

from .gemm_formulas import places_in_panels, product  # ops/gemm/formulas.py, as it is staged


def linear_panels(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    panels = tensors["panels"]
    places = places_in_panels(*panels.shape, rounding.dtype.name == "bfloat16")
    weight = panels.reshape(-1)[places]
    return product("mk,nk->mn", {**tensors, "a": tensors["x"], "b": weight}, scalars)


FORMULAS = {"linear_panels": linear_panels}
