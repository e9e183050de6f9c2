"""gated_linear in NumPy and f64: an independent check of the oracle.

Read next: ops/mlp/formulas.py, gated_linear_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

from .mlp_formulas import gate, linear  # ops/mlp/formulas.py


def gated_linear(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x = tensors["x"]
    return (gate(linear(x, tensors["w_gate"]), scalars["activation"]) * linear(x, tensors["w_up"]),)


FORMULAS = {"gated_linear": gated_linear}
