"""norm_gated_linear in NumPy and f64: an independent check of the oracle.

Read next: ops/mlp/formulas.py, norm_gated_linear_ref.hpp.
"""

from __future__ import annotations

from typing import Any

from .mlp_formulas import gate, linear, normed  # ops/mlp/formulas.py


def norm_gated_linear(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x = normed(tensors["x"], tensors["rms_w"], scalars["eps"])
    return (gate(linear(x, tensors["w_gate"]), scalars["activation"]) * linear(x, tensors["w_up"]),)


FORMULAS = {"norm_gated_linear": norm_gated_linear}
