"""paged_attention_lse in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: paged_attention_lse_ref.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def paged_attention_lse(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q, k_cache, v_cache = tensors["q"], tensors["k_cache"], tensors["v_cache"]
    rows, heads, depth = q.shape
    page, kv_heads = k_cache.shape[1:3]
    lengths = tensors["seq_lens"].astype(int)
    starts = tensors.get("cu_seqlens_q", np.arange(len(lengths) + 1)).astype(int)
    table = tensors["page_table"].astype(int)
    o = np.zeros((rows, heads, v_cache.shape[3]), dtype=q.dtype)
    lse = np.full((rows, heads), -np.inf, dtype=q.dtype)
    scale = scalars["scale"] or 1 / np.sqrt(max(depth, 1))
    scale = scale * tensors.get("k_scale", 1.0)
    for b, length in enumerate(lengths):
        pages = table[b if len(table) > 1 else 0]
        if "indptr" in tensors:
            pages = pages[slice(*tensors["indptr"][b : b + 2].astype(int))]
        length = min(length, len(pages) * page)
        keys = np.arange(length)
        where = pages[keys // page], keys % page
        new = range(starts[b], starts[b + 1])
        for t in new:
            at = length - len(new) + t - starts[b]
            seen = (keys <= at) | (not scalars["causal"])
            if scalars["window"] >= 0:
                seen &= abs(keys - at) <= scalars["window"]
            for h in range(heads):
                kv = h // (heads // kv_heads)
                s = k_cache[where[0][seen], where[1][seen], kv] @ q[t, h] * scale
                if scalars["softcap"]:
                    s = scalars["softcap"] * np.tanh(s / scalars["softcap"])
                values = v_cache[where[0][seen], where[1][seen], kv]
                if "sinks" in tensors:
                    s = np.append(s, tensors["sinks"][h])
                    values = np.append(values, np.zeros_like(values, shape=(1, o.shape[2])), 0)
                if not s.size:
                    continue
                most = s.max() if np.isfinite(s.max()) else 0
                with np.errstate(all="ignore"):
                    p = np.exp(s - most)
                    o[t, h] = p @ values / p.sum() * tensors.get("v_scale", 1.0)
                    lse[t, h] = most + np.log(p.sum())
    return o, lse


FORMULAS = {"paged_attention_lse": paged_attention_lse}
