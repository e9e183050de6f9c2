"""topk_gating_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: topk_gating_backward_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def topk_gating_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, kept = tensors["logits"], tensors["kept"].astype(np.int64)
    (tokens, experts), eps = x.shape, EPS[rounding.dtype.name]
    kept = kept.reshape(scalars["k"], tokens)
    power = np.exp(x - np.max(x, axis=1, keepdims=True, initial=-np.inf))
    gates = power / power.sum(1, keepdims=True)
    da = tensors["dl_aux"] * experts / max(1, tokens) ** 2 * tensors["first_choices"]
    rows = np.arange(tokens)
    there = (kept >= 0) & (kept < experts)
    for token in rows:  # an expert counts once
        again = np.ones(len(kept), bool)
        again[np.unique(kept[:, token], return_index=True)[1]] = False
        there[again, token] = False
    at = np.where(there, kept, 0)
    own = np.where(there, gates[rows, at] if experts else 0, 0)
    dw = np.where(there, tensors["dweights"].reshape(kept.shape), 0)
    total = own.sum(0)
    weights = own / np.maximum(total, eps)
    mean = (weights * dw).sum(0)
    # g · (dg − Σ g · dg) for the weights' part of dg. Where the weights add up to 1, the weighted
    # sum of dw − mean is 0; dividing dw by a small total first would leave rounding errors in it.
    rest = np.where(total < eps, dw, dw - mean)
    whole = da - np.sum(gates * da, axis=1, keepdims=True)
    dlogits = gates * (whole - np.where(total < eps, mean, 0)[:, None])
    j, t = np.nonzero(there)
    np.add.at(dlogits, (t, kept[j, t]), (weights * rest)[j, t])
    return (dlogits,)


FORMULAS = {"topk_gating_backward": topk_gating_backward}
