"""flash_attention_varlen_backward once more, in NumPy and f64: what the oracle is checked against.

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


def flash_attention_varlen_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q, k, v, lse = (tensors[name] for name in ("q", "k", "v", "lse"))
    dlse = tensors.get("dlse", np.zeros_like(lse))
    of_q, of_k = tensors["cu_seqlens_q"], tensors["cu_seqlens_k"]
    dq, dk, dv = (np.zeros_like(t) for t in (q, k, v))
    with np.errstate(all="ignore"):
        for n in range(len(of_q) - 1):
            rows, keys = (slice(int(at[n]), int(at[n + 1])) for at in (of_q, of_k))
            dq[rows], dk[keys], dv[keys] = gradient(
                tensors["dout"][rows], q[rows], k[keys], v[keys], tensors["o"][rows],
                lse[:, rows], dlse[:, rows], 0, scalars,
            )  # fmt: skip
    return dq, dk, dv


FORMULAS = {"flash_attention_varlen_backward": flash_attention_varlen_backward}
