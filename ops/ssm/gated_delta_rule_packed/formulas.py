"""gated_delta_rule_packed in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: gated_delta_rule_packed_ref.cpp,
docs/testing.md.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np


def gated_delta_rule_packed(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q, k = (np.array(tensors[name]) for name in ("q", "k"))
    v, g, beta = tensors["v"], tensors["g"], tensors["beta"]
    state = np.array(tensors["state"])
    if scalars["qk_l2norm"]:
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    repeats = v.shape[1] // max(1, q.shape[1])
    q, k = (np.repeat(x, repeats, 1) for x in (q, k))
    o = np.zeros(v.shape)
    offsets = np.asarray(tensors["cu_seqlens"]).astype(np.int64)
    for s, (begin, end) in enumerate(pairwise(offsets)):
        for t in range(begin, end):
            state[s] *= np.exp(g[t])[:, None, None]
            found = np.einsum("hkv,hk->hv", state[s], k[t])
            change = beta[t][:, None] * (v[t] - found)
            state[s] += k[t][:, :, None] * change[:, None, :]
            o[t] = scalars["scale"] * np.einsum("hkv,hk->hv", state[s], q[t])
    return o, state


FORMULAS = {"gated_delta_rule_packed": gated_delta_rule_packed}
