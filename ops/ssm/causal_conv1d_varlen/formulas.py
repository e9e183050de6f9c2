"""causal_conv1d_varlen in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/ssm/conv_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .ssm_formulas import convolved  # ops/ssm/formulas.py, as it is staged


def causal_conv1d_varlen(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, state = tensors["x"], tensors.get("state")
    offsets = np.asarray(tensors["cu_seqlens"]).astype(np.int64)
    y, after = np.zeros(x.shape), None if state is None else np.array(state)
    for s, (begin, end) in enumerate(pairwise(offsets)):
        of = None if state is None else state[s]
        y[:, begin:end], last = convolved(
            x[:, begin:end], tensors["weight"], tensors.get("bias"), of, scalars["activation"]
        )
        if after is not None and end > begin:
            after[s] = last
    return (y,) if after is None else (y, after)


FORMULAS = {"causal_conv1d_varlen": causal_conv1d_varlen}
