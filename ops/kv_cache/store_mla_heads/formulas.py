"""store_mla_heads in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: store_mla_heads_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def store_mla_heads(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    slots = tensors["slot_mapping"].astype(np.int64)
    taken = slots >= 0
    caches = []
    for name in ("ckv", "kpe"):
        cache = tensors[f"{name}_cache"].copy()
        scale = tensors.get(f"{name}_scale")
        new = tensors[name][taken]
        page = cache.shape[1]
        cache[slots[taken] // page, slots[taken] % page] = new if scale is None else new / scale
        caches.append(cache)
    return tuple(caches)


FORMULAS = {"store_mla_heads": store_mla_heads}
