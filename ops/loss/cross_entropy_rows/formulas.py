"""cross_entropy_rows in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: cross_entropy_rows_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def cross_entropy_rows(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, target = tensors["logits"], tensors["target"].astype(np.int64)[..., None]
    classes, cap, smoothing = x.shape[-1], scalars["softcap"], scalars["label_smoothing"]
    if cap:
        x = cap * np.tanh(x / cap)
    weight = tensors.get("class_weight", np.ones(classes))
    most = np.max(x, axis=-1, keepdims=True)
    lse = most + np.log(np.sum(np.exp(x - most), axis=-1, keepdims=True))
    ignored = target == scalars["ignore_index"]
    there = np.where(ignored, 0, target)
    loss = (1 - smoothing) * weight[there] * (lse - np.take_along_axis(x, there, -1))
    if smoothing:
        total = tensors.get("weight_sum", classes)
        shared = total * lse - np.sum(weight * x, axis=-1, keepdims=True)
        loss = loss + smoothing / classes * shared
    return np.where(ignored, 0.0, loss), lse


FORMULAS = {"cross_entropy_rows": cross_entropy_rows}
