"""grouped_topk in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: grouped_topk_ref.cpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def descending(values: Any) -> Any:
    """Indices in descending order of value; NaN ranks above all, ties keep their order."""
    order = np.argsort(np.where(np.isnan(values), -np.inf, -values), axis=-1, kind="stable")
    nan_first = np.argsort(~np.isnan(np.take_along_axis(values, order, -1)), axis=-1, kind="stable")
    return np.take_along_axis(order, nan_first, -1)


def grouped_topk(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> Any:
    x, topk, groups = tensors["logits"], scalars["topk"], scalars["num_groups"]
    bias = tensors.get("bias")
    if scalars["scoring"] == "sigmoid":
        scores = np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))
    else:
        power = np.exp(x - np.max(x, axis=-1, keepdims=True))
        scores = power / np.sum(power, axis=-1, keepdims=True)
    biased = scores if bias is None else scores + bias
    apart = biased.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)
    two = np.take_along_axis(apart, descending(apart), -1)[..., :2]
    best = descending(np.sum(two, axis=-1))[..., : scalars["topk_groups"]]
    best = np.sort(best, axis=-1)
    width = apart.shape[-1]
    columns = best[..., None] * width + np.arange(width)
    columns = columns.reshape(*x.shape[:-1], best.shape[-1] * width)
    order = descending(np.take_along_axis(biased, columns, -1))[..., :topk]
    ids = np.take_along_axis(columns, order, -1)
    chosen = np.take_along_axis(scores, ids, -1)
    if scalars["renormalize"]:  # over the largest of them, which no quotient shows
        logits = np.take_along_axis(x, ids, -1)
        exponents = np.minimum(logits, 0) if scalars["scoring"] == "sigmoid" else logits
        most = np.max(exponents, axis=-1, keepdims=True, initial=-np.inf)
        power = np.exp(exponents - most)
        if scalars["scoring"] == "sigmoid":
            chosen = power / (1 + np.exp(-np.abs(logits)))
        else:
            chosen = np.where(np.isnan(chosen), np.nan, power)
    total = np.sum(chosen, axis=-1, keepdims=True)
    over = total if scalars["renormalize"] else 1.0
    shared = scalars["num_fused_shared_experts"]
    weights = [scalars["scale"] * chosen / over, np.repeat(total / over, shared, axis=-1)]
    more = np.broadcast_to(x.shape[-1] + np.arange(shared), (*x.shape[:-1], shared))
    return np.concatenate(weights, -1), np.concatenate([ids, more], -1)


FORMULAS = {"grouped_topk": grouped_topk}
