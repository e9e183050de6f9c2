"""cross_entropy_rows_backward in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: cross_entropy_rows_backward_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def cross_entropy_rows_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, target = tensors["logits"], tensors["target"].astype(np.int64)[..., None]
    classes, cap, smoothing = x.shape[-1], scalars["softcap"], scalars["label_smoothing"]
    slope = 1.0
    if cap:
        tanh = np.tanh(x / cap)
        x, slope = cap * tanh, 1 - tanh * tanh
    weight = tensors.get("class_weight", np.ones(classes))
    ignored = target == scalars["ignore_index"]
    there = np.where(ignored, 0, target)
    g = np.where(ignored, 0.0, tensors["dloss"])
    taken, shared = g * (1 - smoothing) * weight[there], g * smoothing / classes
    total = tensors.get("weight_sum", classes)
    factor = taken + shared * total + tensors.get("dlse", 0.0)
    d = np.exp(x - tensors["lse"]) * factor - shared * weight
    d = d - (np.arange(classes) == there) * taken
    return (np.where(ignored & (tensors.get("dlse", 0.0) == 0), 0.0, d * slope),)


FORMULAS = {"cross_entropy_rows_backward": cross_entropy_rows_backward}
