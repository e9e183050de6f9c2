"""causal_conv1d_batch once more, in NumPy: what the oracle itself is checked against.

Written from the contract, not from the C++. Read next: ops/ssm/conv_ref.hpp, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def convolved(x: Any, weight: Any, bias: Any, state: Any, activation: str) -> tuple[Any, Any]:
    """One sequence: x [C, L] -> y, the state after it."""
    channels, taps = weight.shape
    past = np.zeros((channels, taps - 1)) if state is None else state
    all_ = np.concatenate([past, x], 1)
    y = np.zeros(x.shape) + (0 if bias is None else bias[:, None])
    for k in range(taps):
        y = y + weight[:, k : k + 1] * all_[:, k : k + x.shape[1]]
    if activation == "silu":
        y = y / (1 + np.exp(-y))
    return y, all_[:, x.shape[1] :]


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
