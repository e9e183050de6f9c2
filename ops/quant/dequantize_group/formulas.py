"""dequantize_group in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: dequantize_group_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def dequantize_group(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q, group = tensors["q"], min(scalars["group"], max(1, tensors["q"].shape[-1]))
    return (q * np.repeat(tensors["scale"], group, axis=-1)[..., : q.shape[-1]],)


FORMULAS = {"dequantize_group": dequantize_group}
