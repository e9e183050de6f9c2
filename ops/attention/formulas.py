"""Attention and its gradient in NumPy and f64, in every form: dense and packed sequences, with and
without f8 descales. Written from the contract, not from the C++.

Read next: flash_attention_lse/formulas.py, attention_oracle.cpp (what it checks).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np


def visible(length: int, keys: int, scalars: dict[str, Any]) -> Any:
    """[S, L]: which keys each query sees; the last query is at the last key."""
    ahead = np.arange(keys) - np.arange(length)[:, None] - (keys - length)
    seen = np.ones_like(ahead, bool)
    if scalars["causal"]:
        seen &= ahead <= 0
    if scalars["window"] >= 0:
        seen &= abs(ahead) <= scalars["window"]
    return seen


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
        seen = visible(length, keys, scalars)
        scores = np.where(seen, scores, -np.inf)
        most = scores.max(-1, initial=-np.inf)
        weights = np.exp(scores - np.where(np.isneginf(most), 0, most)[..., None])
        total = weights.sum(-1)
        shares = weights / np.where(total == 0, 1, total)[..., None]
        # A key that the query does not see contributes nothing, whatever v holds there.
        out = np.zeros((length, heads, v.shape[-1]), q.dtype)
        for h in range(heads):
            for s in range(length):
                out[s, h] = shares[h, s][seen[s]] @ v[seen[s], h]
        lse = np.where(total == 0, -np.inf, most + np.log(total))
    return out, lse


def descaled(tensors: dict[str, Any], name: str) -> Any:
    """A tensor [B, rows, heads, columns] times its descales [1|B, 1|Hkv], if it has any."""
    x, factors = tensors[name], tensors.get(f"{name}_descale")
    if factors is None:
        return x
    heads = tensors["k"].shape[2]
    factors = np.broadcast_to(factors.astype(x.dtype), (x.shape[0], heads))
    return x * np.repeat(factors, x.shape[2] // max(1, heads), 1)[:, None, :, None]


def dense(tensors: dict[str, Any], scalars: dict[str, Any]) -> tuple[Any, Any]:
    """Sequences of one length: q [B, S, H, D], k [B, L, Hkv, D], v [B, L, Hkv, Dv]."""
    q, k, v = (descaled(tensors, name) for name in "qkv")
    batch, length, heads, _ = q.shape
    bias = tensors.get("bias", np.zeros((1, 1, 1, k.shape[1]), q.dtype))
    bias = np.broadcast_to(bias, (batch, heads, length, k.shape[1]))
    made = [attention(q[b], k[b], v[b], bias[b], scalars) for b in range(batch)]
    if not made:
        return np.zeros((0, length, heads, v.shape[-1])), np.zeros((0, heads, length))
    return np.stack([m[0] for m in made]), np.stack([m[1] for m in made])


def sequences(tensors: dict[str, Any]) -> list[tuple[slice, slice]]:
    """Rows of q and rows of k for each packed sequence."""
    ends = [tensors[name].astype(int) for name in ("cu_seqlens_q", "cu_seqlens_k")]
    parts = [[slice(*pair) for pair in pairwise(at)] for at in ends]
    return list(zip(*parts, strict=True))


def packed(tensors: dict[str, Any], scalars: dict[str, Any]) -> tuple[Any, Any]:
    """Packed sequences: q [T, H, D], k [U, Hkv, D], v [U, Hkv, Dv]."""
    q, v = tensors["q"], tensors["v"]
    out = np.zeros((*q.shape[:2], v.shape[-1]), q.dtype)
    lse = np.full((q.shape[1], q.shape[0]), -np.inf, q.dtype)  # of no sequence: nothing seen
    for n, (rows, keys) in enumerate(sequences(tensors)):
        one = {"q": q[None, rows], "k": tensors["k"][None, keys], "v": v[None, keys]}
        for name in ("q_descale", "k_descale", "v_descale"):
            if name in tensors:
                one[name] = tensors[name][n : n + 1] if len(tensors[name]) > 1 else tensors[name]
        (out[rows],), (lse[:, rows],) = dense(one, scalars)
    return out, lse


def gradient(
    dout: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, dlse: Any, bias: Any, scalars: Any
) -> tuple[Any, Any, Any]:
    """One sequence: q [S, H, D], k [L, Hkv, D], v [L, Hkv, Dv], lse [H, S], bias [H, S, L] or 0."""
    (length, heads, width), (keys, shared, _) = q.shape, k.shape
    group = heads // max(1, shared)
    wide, values = (np.repeat(t, group, 1) for t in (k, v))
    scale = q.dtype.type(scalars["scale"] or 1 / np.sqrt(max(1, width)))
    scores = np.einsum("shd,lhd->hsl", q, wide) * scale
    slope = 1.0
    if cap := scalars["softcap"]:
        tanh = np.tanh(scores / cap)
        scores, slope = cap * tanh, 1 - tanh * tanh
    seen = visible(length, keys, scalars)
    weights = np.where(
        seen & np.isfinite(lse)[..., None], np.exp(scores + bias - lse[..., None]), 0
    )
    delta = np.einsum("shd,shd->hs", dout, o) - dlse
    inner = np.einsum("shd,lhd->hsl", dout, values) - delta[..., None]
    ds = weights * inner * slope * scale
    dq = np.einsum("hsl,lhd->shd", ds, wide)
    dk = np.einsum("hsl,shd->lhd", ds, q)
    dv = np.einsum("hsl,shd->lhd", weights, dout)
    return dq, *(t.reshape(keys, shared, group, t.shape[-1]).sum(2) for t in (dk, dv))
