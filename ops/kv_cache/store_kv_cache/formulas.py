"""store_kv_cache in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: store_kv_cache_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def store_kv_cache(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    slots = tensors["slot_mapping"].astype(np.int64)
    taken = slots >= 0
    caches = []
    for name in ("k", "v"):
        cache = tensors[f"{name}_cache"].copy()
        blocks, places = np.divmod(slots[taken], cache.shape[1])
        scale = tensors.get(f"{name}_scale")
        new = tensors[name][taken]
        cache[blocks, places] = new if scale is None else new / scale
        caches.append(cache)
    return tuple(caches)


FORMULAS = {"store_kv_cache": store_kv_cache}
