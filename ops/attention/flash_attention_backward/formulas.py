"""flash_attention_backward once more, in NumPy and f64: what the oracle is checked against.

Written from the contract, not from the C++. Read next: ../attention_gradient_oracle.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


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
    ahead = np.arange(keys) - np.arange(length)[:, None] - (keys - length)
    seen = np.ones_like(ahead, bool)
    if scalars["causal"]:
        seen &= ahead <= 0
    if scalars["window"] >= 0:
        seen &= abs(ahead) <= scalars["window"]
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


def flash_attention_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q, k, v = (tensors[name] for name in ("q", "k", "v"))
    batch, length, heads, _ = q.shape
    lse = tensors["lse"]
    dlse = tensors.get("dlse", np.zeros_like(lse))
    bias = tensors.get("bias", np.zeros((1, 1, 1, k.shape[1]), q.dtype))
    bias = np.broadcast_to(bias, (batch, heads, length, k.shape[1]))
    made = tuple(np.zeros_like(t) for t in (q, k, v))
    with np.errstate(all="ignore"):
        for b in range(batch):
            parts = gradient(
                tensors["dout"][b], q[b], k[b], v[b], tensors["o"][b], lse[b], dlse[b], bias[b],
                scalars,
            )  # fmt: skip
            for whole, part in zip(made, parts, strict=True):
                whole[b] = part
    return made


FORMULAS = {"flash_attention_backward": flash_attention_backward}
