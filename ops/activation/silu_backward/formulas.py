"""silu_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: silu_backward_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def silu_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, s = tensors["x"], 1.0 / (1.0 + np.exp(-tensors["x"]))
    return (tensors["dy"] * s * (1.0 + x * (1.0 - s)),)


FORMULAS = {"silu_backward": silu_backward}
