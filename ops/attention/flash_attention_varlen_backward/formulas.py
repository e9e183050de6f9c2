"""flash_attention_varlen_backward in NumPy and f64: an independent check of the oracle.

Read next: ../formulas.py, ../gradient/attention_gradient_oracle.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .attention_formulas import gradient, sequences  # ops/attention/formulas.py, as it is staged


def flash_attention_varlen_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q, k, v, lse = (tensors[name] for name in ("q", "k", "v", "lse"))
    dlse = tensors.get("dlse", np.zeros_like(lse))
    dq, dk, dv = (np.zeros_like(t) for t in (q, k, v))
    with np.errstate(all="ignore"):
        for rows, keys in sequences(tensors):
            dq[rows], dk[keys], dv[keys] = gradient(
                tensors["dout"][rows], q[rows], k[keys], v[keys], tensors["o"][rows],
                lse[:, rows], dlse[:, rows], 0, scalars,
            )  # fmt: skip
    return dq, dk, dv


FORMULAS = {"flash_attention_varlen_backward": flash_attention_varlen_backward}
