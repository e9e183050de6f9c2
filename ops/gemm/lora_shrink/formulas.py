"""lora_shrink in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/gemm/lora/lora_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def lora_shrink(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    adapters, y = tensors["token_lora"].astype(np.int64), tensors["y"].copy()
    for t, adapter in enumerate(adapters):
        if adapter >= 0:
            y[t] += scalars["scale"] * np.einsum("nk,k->n", tensors["a"][adapter], tensors["x"][t])
    return (y,)


FORMULAS = {"lora_shrink": lora_shrink}
