"""merge_attention_states in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: merge_attention_states_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def merge_attention_states(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    lse = np.stack([tensors["lse1"], tensors["lse2"]])
    o = np.stack([tensors["o1"], tensors["o2"]])
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        most = np.max(lse, axis=0)
        weights = np.exp(lse - np.where(np.isneginf(most), 0, most))
        weights = np.where(weights < 2.0**-126, 0, weights)
        total = weights.sum(axis=0)
        shares = (weights / np.where(total == 0, 1, total))[..., None]
        merged = np.sum(np.where(shares == 0, 0, shares * o), axis=0)
        return merged, np.where(total == 0, most, most + np.log(total))


FORMULAS = {"merge_attention_states": merge_attention_states}
