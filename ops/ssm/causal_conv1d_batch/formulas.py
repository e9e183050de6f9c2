"""causal_conv1d_batch in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/ssm/conv_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .ssm_formulas import convolved  # ops/ssm/formulas.py, as it is staged


def causal_conv1d_batch(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, state = tensors["x"], tensors.get("state")
    y, after = np.zeros(x.shape), None if state is None else np.array(state)
    for b in range(x.shape[0]):
        of = None if state is None else state[b]
        y[b], last = convolved(
            x[b], tensors["weight"], tensors.get("bias"), of, scalars["activation"]
        )
        if after is not None:
            after[b] = last
    return (y,) if after is None else (y, after)


FORMULAS = {"causal_conv1d_batch": causal_conv1d_batch}
