"""topk_sigmoid in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: topk_sigmoid_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def topk_sigmoid(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> Any:
    x, topk = tensors["logits"], scalars["topk"]
    order = np.lexsort((-np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf), ~np.isnan(x)))
    ids = order[..., :topk]  # NaN first, then the largest; lexsort is stable
    with np.errstate(invalid="ignore", divide="ignore"):
        log_gate = -np.logaddexp(0, -np.take_along_axis(x, ids, -1))
        if not scalars["renormalize"] or topk == 0:
            return np.exp(log_gate), ids
        power = np.exp(log_gate - np.max(log_gate, axis=-1, keepdims=True))
        return power / np.sum(power, axis=-1, keepdims=True), ids


FORMULAS = {"topk_sigmoid": topk_sigmoid}
