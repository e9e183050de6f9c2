"""moe_sort in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: moe_sort_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def moe_sort(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    ids, experts = tensors["topk_ids"].astype(np.int64), scalars["num_experts"]
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    order = order[(flat[order] >= 0) & (flat[order] < experts)]
    rows, inverse = np.full(ids.size, -1), np.full(ids.size, -1)
    rows[: len(order)] = order // max(1, ids.shape[1])
    inverse[order] = np.arange(len(order))
    offsets = np.searchsorted(flat[order], np.arange(experts + 1))
    return rows, offsets, inverse.reshape(ids.shape)


FORMULAS = {"moe_sort": moe_sort}
