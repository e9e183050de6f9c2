"""flash_attention_f8_lse in NumPy and f64: an independent check of the oracle.

Read next: ../formulas.py.
"""

from __future__ import annotations

from typing import Any

from .attention_formulas import dense  # ops/attention/formulas.py, as it is staged


def flash_attention_f8_lse(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    return dense(tensors, scalars)


FORMULAS = {"flash_attention_f8_lse": flash_attention_f8_lse}
