"""silu_and_mul in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: silu_and_mul_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def silu_and_mul(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    gate, up = np.split(tensors["x"], 2, axis=-1)
    return (gate / (1.0 + np.exp(-gate)) * up,)


FORMULAS = {"silu_and_mul": silu_and_mul}
