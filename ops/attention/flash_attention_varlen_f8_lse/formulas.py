"""flash_attention_varlen_f8_lse once more, in NumPy and f64: what the oracle is checked against.

Written from the contract, not from the C++. Read next: ../attention_oracle.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def attention(q: Any, k: Any, v: Any, scalars: dict[str, Any]) -> tuple[Any, Any]:
    """One sequence: q [S, H, D], k [L, Hkv, D], v [L, Hkv, Dv]."""
    (length, heads, width), keys = q.shape, k.shape[0]
    group = heads // max(1, k.shape[1])
    k, v = (np.repeat(t, group, 1) for t in (k, v))
    scale = scalars["scale"] or 1 / np.sqrt(max(1, width))
    scores = np.einsum("shd,lhd->hsl", q, k) * q.dtype.type(scale)
    if cap := scalars["softcap"]:
        scores = cap * np.tanh(scores / cap)
    ahead = np.arange(keys) - np.arange(length)[:, None] - (keys - length)
    seen = np.ones_like(ahead, bool)
    if scalars["causal"]:
        seen &= ahead <= 0
    if scalars["window"] >= 0:
        seen &= abs(ahead) <= scalars["window"]
    scores = np.where(seen, scores, -np.inf)
    most = scores.max(-1, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(most), 0, most)[..., None])
    total = weights.sum(-1)
    shares = weights / np.where(total == 0, 1, total)[..., None]
    out = np.zeros((length, heads, v.shape[-1]), q.dtype)
    for h in range(heads):  # a key that is not seen counts for nothing, whatever v holds there
        for s in range(length):
            out[s, h] = shares[h, s][seen[s]] @ v[seen[s], h]
    return out, np.where(total == 0, -np.inf, most + np.log(total))


def descaled(tensors: dict[str, Any], name: str, x: Any, n: int) -> Any:
    """Rows [rows, heads, columns] of sequence n times its factors, of [1|N, 1|Hkv]."""
    factors = tensors.get(f"{name}_descale")
    if factors is None:
        return x
    heads = tensors["k"].shape[1]
    own = np.broadcast_to(factors[min(n, len(factors) - 1)].astype(x.dtype), (heads,))
    return x * np.repeat(own, x.shape[1] // max(1, heads))[:, None]


def flash_attention_varlen_f8_lse(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q, k, v, of_q, of_k = (
        tensors[name] for name in ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k")
    )
    out = np.zeros((*q.shape[:2], v.shape[-1]), q.dtype)
    lse = np.full((q.shape[1], q.shape[0]), -np.inf, q.dtype)  # of no sequence: nothing seen
    with np.errstate(all="ignore"):
        for n in range(len(of_q) - 1):
            rows, keys = (slice(int(at[n]), int(at[n + 1])) for at in (of_q, of_k))
            part = [
                descaled(tensors, x, t[at], n)
                for x, t, at in (("q", q, rows), ("k", k, keys), ("v", v, keys))
            ]
            out[rows], lse[:, rows] = attention(*part, scalars)
    return out, lse


FORMULAS = {"flash_attention_varlen_f8_lse": flash_attention_varlen_f8_lse}
