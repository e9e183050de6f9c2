"""flash_attention_backward in NumPy and f64: an independent check of the oracle.

Read next: ../formulas.py, ../gradient/attention_gradient_oracle.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .attention_formulas import gradient  # ops/attention/formulas.py, as it is staged


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
