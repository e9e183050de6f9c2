"""mla_decode_lse in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: mla_decode_lse_ref.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def mla_decode_lse(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q = np.concatenate([tensors["q_nope"], tensors["q_pe"]], -1)
    parts = (("ckv_cache", "ckv_scale"), ("kpe_cache", "kpe_scale"))
    cache = np.concatenate([tensors[name] * tensors.get(by, 1.0) for name, by in parts], -1)
    tokens, heads, depth = q.shape
    latent = tensors["q_nope"].shape[2]
    table = tensors["page_table"].astype(int)
    o = np.zeros((tokens, heads, latent), dtype=q.dtype)
    lse = np.full((tokens, heads), -np.inf, dtype=q.dtype)
    scale = scalars["scale"] or 1 / np.sqrt(max(depth, 1))
    for t, length in enumerate(tensors["seq_lens"].astype(int)):
        at = np.arange(min(length, table.shape[1] * cache.shape[1]))
        if not at.size:
            continue
        pages = table[t if len(table) > 1 else 0]
        keys = cache[pages[at // cache.shape[1]], at % cache.shape[1]]
        with np.errstate(all="ignore"):
            s = q[t] @ keys.T * scale
            most = s.max(-1, keepdims=True)
            p = np.exp(s - np.where(np.isfinite(most), most, 0))
            o[t] = p @ keys[:, :latent] / p.sum(-1, keepdims=True)
            lse[t] = most[:, 0] + np.log(p.sum(-1))
    return o, lse


FORMULAS = {"mla_decode_lse": mla_decode_lse}
