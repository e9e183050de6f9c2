"""Shared by the formulas of causal_conv1d, in NumPy and f64. Written from the contract, not from
the C++. Read next: causal_conv1d_batch/formulas.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def convolved(x: Any, weight: Any, bias: Any, state: Any, activation: str) -> tuple[Any, Any]:
    """Convolves one sequence, x [C, L]: y and the state after it."""
    channels, taps = weight.shape
    past = np.zeros((channels, taps - 1)) if state is None else state
    all_ = np.concatenate([past, x], 1)
    y = np.zeros(x.shape) + (0 if bias is None else bias[:, None])
    for k in range(taps):
        y = y + weight[:, k : k + 1] * all_[:, k : k + x.shape[1]]
    if activation == "silu":
        y = y / (1 + np.exp(-y))
    return y, all_[:, x.shape[1] :]
