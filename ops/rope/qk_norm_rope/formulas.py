"""qk_norm_rope in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/rope/normed_heads_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def qk_norm_rope(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    rows = tensors["cos_sin_cache"][tensors["positions"].astype(np.int64)]
    cos, sin = np.split(rows[..., None, :], 2, axis=-1)
    turned = 2 * cos.shape[-1]

    def normed_and_rotated(name: str) -> Any:
        x = tensors[name]
        mean = np.mean(x * x, axis=-1, keepdims=True) if x.shape[-1] else np.zeros(1)
        n = x / np.sqrt(mean + scalars["eps"]) * tensors[f"{name}_weight"]
        apart = np.arange(turned).reshape(2, -1)
        near = apart.reshape(-1, 2).T  # neighbours
        low, high = apart if scalars["style"] == "neox" else near
        to_low, to_high = near if scalars["style"] == "interleaved" else apart
        y = n.copy()
        y[..., to_low] = n[..., low] * cos - n[..., high] * sin
        y[..., to_high] = n[..., high] * cos + n[..., low] * sin
        return y

    q, k = normed_and_rotated("q"), normed_and_rotated("k")
    if "key_cache" not in tensors:
        return q, k
    cache, slots = tensors["key_cache"].copy(), tensors["slots"].astype(np.int64)
    new = k / np.float64(np.float32(scalars["k_scale"]))
    cache.reshape(-1, *cache.shape[2:])[slots[slots >= 0]] = new[slots >= 0]
    return q, k, cache


FORMULAS = {"qk_norm_rope": qk_norm_rope}
