"""norm_linear in NumPy and f64: an independent check of the oracle.

Read next: ops/mlp/formulas.py, norm_linear_ref.hpp.
"""

from __future__ import annotations

from typing import Any

from .mlp_formulas import linear, normed  # ops/mlp/formulas.py


def norm_linear(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    return (linear(normed(tensors["x"], tensors["rms_w"], scalars["eps"]), tensors["weight"]),)


FORMULAS = {"norm_linear": norm_linear}
