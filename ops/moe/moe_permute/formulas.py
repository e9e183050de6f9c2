"""moe_permute in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Rows after the last group, which the contract leaves
undefined, are 0 here. Read next: moe_permute_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def moe_permute(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    x, ids, experts = tensors["x"], tensors["topk_ids"].astype(np.int64), scalars["num_experts"]
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    order = order[(flat[order] >= 0) & (flat[order] < experts)]
    rows, inverse = np.zeros_like(x, shape=(ids.size, x.shape[1])), np.full(ids.size, -1)
    rows[: len(order)] = x[order // max(1, ids.shape[1])]
    inverse[order] = np.arange(len(order))
    offsets = np.searchsorted(flat[order], np.arange(experts + 1))
    return rows, offsets, inverse.reshape(ids.shape)


FORMULAS = {"moe_permute": moe_permute}
