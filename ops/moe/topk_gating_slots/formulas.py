"""topk_gating_slots in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: topk_gating_slots_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def topk_gating_slots(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, k, capacity = tensors["logits"], scalars["k"], scalars["capacity"]
    (tokens, experts), there = x.shape, min(scalars["k"], x.shape[1])
    eps = EPS["float32" if scalars.get("dtype") == "f32" else rounding.dtype.name]
    power = np.exp(x - np.max(x, axis=1, keepdims=True, initial=-np.inf))
    gates = power / power.sum(1, keepdims=True)
    rank = np.argsort(np.where(np.isnan(x), -np.inf, -x), axis=1, kind="stable")
    nan_first = np.argsort(~np.isnan(np.take_along_axis(x, rank, 1)), axis=1, kind="stable")
    chosen = np.full((tokens, k), -1)
    chosen[:, :there] = np.take_along_axis(rank, nan_first, 1)[:, :there]
    flat = chosen.T.reshape(-1)  # all first choices, then all second ones
    one_hot = flat[:, None] == np.arange(experts)
    place = np.sum((np.cumsum(one_hot, 0) - 1) * one_hot, 1)
    stays = (flat >= 0) & (place < capacity)
    slots = np.where(stays, flat * capacity + place, 0)
    token = np.tile(np.arange(tokens), k)
    select = np.zeros(experts * capacity)
    select[slots[stays]] = token[stays]
    own = np.where(stays, gates[token, flat], 0) if flat.size and experts else np.zeros(flat.size)
    total = own.reshape(k, tokens).sum(0)
    weights = np.where(stays, own / np.tile(np.maximum(total, eps), k), 0)
    first = one_hot[: tokens if there else 0].sum(0)
    l_aux = np.sum(gates.sum(0) * first) * experts / max(1, tokens) ** 2
    return l_aux, slots, weights, select, np.where(stays, flat, -1), first


FORMULAS = {"topk_gating_slots": topk_gating_slots}
