"""l2_norm in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: l2_norm_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def l2_norm(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    x = tensors["x"]
    norm = np.sqrt(np.sum(np.square(x), axis=-1, keepdims=True))
    return (x / np.maximum(norm, scalars["eps"]),)


FORMULAS = {"l2_norm": l2_norm}
