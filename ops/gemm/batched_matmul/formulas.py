"""batched_matmul in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ../formulas.py, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

from .gemm_formulas import product  # ops/gemm/formulas.py, as it is staged


def batched_matmul(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    return product("bmk,bkn->bmn", tensors, scalars)


FORMULAS = {"batched_matmul": batched_matmul}
