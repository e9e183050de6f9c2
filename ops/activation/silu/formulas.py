"""silu in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: silu_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def silu(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    x = tensors["x"]
    return (x / (1.0 + np.exp(-x)),)


FORMULAS = {"silu": silu}
