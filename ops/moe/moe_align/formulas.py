"""moe_align in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: moe_align_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def moe_align(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    ids, experts, block = tensors["topk_ids"], scalars["num_experts"], scalars["block"]
    flat, extent = ids.reshape(-1).astype(np.int64), ids.size + experts * block
    sorted_ids = np.full(extent, ids.size)
    owners = np.full(-(-extent // block), -1)
    order = np.argsort(flat, kind="stable")
    at = 0
    for expert in range(experts):
        begin, end = np.searchsorted(flat[order], [expert, expert + 1])
        sorted_ids[at : at + end - begin] = order[begin:end]
        blocks = -(-(end - begin) // block)
        owners[at // block : at // block + blocks] = expert
        at += blocks * block
    return sorted_ids, owners, np.array([at])


FORMULAS = {"moe_align": moe_align}
