"""moe_unpermute in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: moe_unpermute_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def moe_unpermute(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    rows, inverse = tensors["rows"], tensors["inverse"].astype(np.int64)
    there = (inverse >= 0) & (inverse < len(rows))
    padded = np.concatenate([rows, np.zeros_like(rows[:1], shape=(1, rows.shape[1]))])
    taken = padded[np.where(there, inverse, len(rows))]
    weights = np.where(there, tensors["topk_weights"], 0)[..., None]
    return (np.sum(np.where(there[..., None], weights * taken, 0), axis=1),)


FORMULAS = {"moe_unpermute": moe_unpermute}
