"""flash_attention_f8_lse once more, in NumPy and f64: what the oracle itself is checked against.

Written from the contract, not from the C++. Read next: ../attention_oracle.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def attention(q: Any, k: Any, v: Any, bias: Any, scalars: dict[str, Any]) -> tuple[Any, Any]:
    """One sequence: q [S, H, D], k [L, Hkv, D], v [L, Hkv, Dv], bias [H, S, L] or 0."""
    (length, heads, width), keys = q.shape, k.shape[0]
    group = heads // max(1, k.shape[1])
    k, v = (np.repeat(t, group, 1) for t in (k, v))
    scale = scalars["scale"] or 1 / np.sqrt(max(1, width))
    with np.errstate(all="ignore"):
        scores = np.einsum("shd,lhd->hsl", q, k) * q.dtype.type(scale)
        if cap := scalars["softcap"]:
            scores = cap * np.tanh(scores / cap)
        scores = scores + bias
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
        # A key that is not seen counts for nothing, whatever v holds there.
        out = np.zeros((length, heads, v.shape[-1]), q.dtype)
        for h in range(heads):
            for s in range(length):
                out[s, h] = shares[h, s][seen[s]] @ v[seen[s], h]
        lse = np.where(total == 0, -np.inf, most + np.log(total))
    return out, lse


def descaled(tensors: dict[str, Any], name: str) -> Any:
    """A tensor [B, rows, heads, columns] times its factors [1|B, 1|Hkv]."""
    x, factors = tensors[name], tensors.get(f"{name}_descale")
    if factors is None:
        return x
    heads = tensors["k"].shape[2]
    factors = np.broadcast_to(factors.astype(x.dtype), (x.shape[0], heads))
    return x * np.repeat(factors, x.shape[2] // max(1, heads), 1)[:, None, :, None]


def flash_attention_f8_lse(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q, k, v, bias = (tensors.get(name) for name in ("q", "k", "v", "bias"))
    batch, length, heads, _ = q.shape
    if bias is None:
        bias = np.zeros((1, 1, 1, k.shape[1]), q.dtype)
    bias = np.broadcast_to(bias, (batch, heads, length, k.shape[1]))
    q, k, v = (descaled(tensors, x) for x in "qkv")
    made = [attention(q[b], k[b], v[b], bias[b], scalars) for b in range(batch)]
    if not made:
        return np.zeros((0, length, heads, v.shape[-1])), np.zeros((0, heads, length))
    return np.stack([m[0] for m in made]), np.stack([m[1] for m in made])


FORMULAS = {"flash_attention_f8_lse": flash_attention_f8_lse}
