"""layernorm_gated_rows in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: layernorm_gated_rows_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def layernorm_gated_rows(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    v = tensors["x"]
    if v.shape[-1] == 0:
        return (v,)
    before = scalars["norm_before_gate"]
    gate = tensors["z"] / (1 + np.exp(-tensors["z"])) if "z" in tensors else np.ones(())
    if not before:
        v = v * gate
    if not scalars["is_rms_norm"]:
        v = v - np.mean(v, axis=-1, keepdims=True)
    y = v / np.sqrt(np.mean(v**2, axis=-1, keepdims=True) + scalars["eps"])
    rows = np.arange(np.prod(v.shape[:-1], dtype=int)).reshape(v.shape[:-1]) % scalars["groups"]
    if "weight" in tensors:
        y = y * tensors["weight"][rows]
    if "bias" in tensors:
        y = y + tensors["bias"][rows]
    return (y * gate if before else y,)


FORMULAS = {"layernorm_gated_rows": layernorm_gated_rows}
