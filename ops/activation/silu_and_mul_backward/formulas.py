"""silu_and_mul_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: silu_and_mul_backward_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def silu_and_mul_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    gate, up = np.split(tensors["x"], 2, axis=-1)
    dy, s = tensors["dy"], 1.0 / (1.0 + np.exp(-gate))
    return (np.concatenate([dy * up * s * (1.0 + gate * (1.0 - s)), dy * gate * s], axis=-1),)


FORMULAS = {"silu_and_mul_backward": silu_and_mul_backward}
