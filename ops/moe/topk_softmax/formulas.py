"""topk_softmax in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: topk_softmax_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def topk_softmax(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> Any:
    x, topk = tensors["logits"], scalars["topk"]
    number = np.where(np.isnan(x), -np.inf, -x)  # a stable sort keeps equals in their order
    ids = np.argsort(number, axis=-1, kind="stable")
    nan_first = np.argsort(~np.isnan(np.take_along_axis(x, ids, -1)), axis=-1, kind="stable")
    ids = np.take_along_axis(ids, nan_first, -1)[..., :topk]
    power = np.exp(x - np.max(x, axis=-1, keepdims=True))
    chosen = np.take_along_axis(power, ids, -1)
    over = chosen if scalars["renormalize"] else power
    return chosen / np.sum(over, axis=-1, keepdims=True), ids


FORMULAS = {"topk_softmax": topk_softmax}
