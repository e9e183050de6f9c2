"""layernorm_gated_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: layernorm_gated_backward_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def layernorm_gated_backward(tensors: dict[str, Any], scalars: dict[str, Any], _: Any) -> Any:
    dy, x, z = tensors["dy"], tensors["x"], tensors.get("z")
    groups, width = scalars["groups"], x.shape[-1]
    phase = np.arange(np.prod(x.shape[:-1], dtype=int)) % groups
    none = np.zeros((groups, width))
    if width == 0:
        return x, x, none, none
    rows = phase.reshape(x.shape[:-1])
    weight = tensors["weight"][rows] if "weight" in tensors else np.ones(())
    bias = tensors["bias"][rows] if "bias" in tensors else np.zeros(())
    s = 1 / (1 + np.exp(-z)) if z is not None else None
    gate = np.ones(()) if z is None else z * s
    behind = scalars["norm_before_gate"]
    v = x if behind else x * gate
    mean = np.zeros(()) if scalars["is_rms_norm"] else np.mean(v, axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.mean((v - mean) ** 2, axis=-1, keepdims=True) + scalars["eps"])
    n, inner = (v - mean) * rstd, dy * gate if behind else dy
    g = inner * weight
    centred = g if scalars["is_rms_norm"] else g - np.mean(g, axis=-1, keepdims=True)
    dv = rstd * (centred - n * np.mean(g * n, axis=-1, keepdims=True))
    dz = np.zeros_like(x)
    if z is not None:
        slope = s * (1 + z * (1 - s))
        dz = dy * (n * weight + bias) * slope if behind else dv * x * slope

    def of_phases(terms: Any, there: bool) -> Any:
        flat = terms.reshape(-1, width)
        return np.stack([flat[phase == p].sum(0) for p in range(groups)]) if there else none

    dweight = of_phases(inner * n, "weight" in tensors)
    dbias = of_phases(np.broadcast_to(inner, x.shape), "bias" in tensors)
    return dv if behind else dv * gate, dz, dweight, dbias


FORMULAS = {"layernorm_gated_backward": layernorm_gated_backward}
