"""selective_scan in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/ssm/step_oracle.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def selective_scan(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    u, delta, a = tensors["u"], tensors["delta"], tensors["A"]
    batch, channels, length = u.shape
    b, c = (np.repeat(t, channels // max(1, t.shape[1]), 1) for t in (tensors["B"], tensors["C"]))
    state = tensors.get("initial_state", np.zeros((batch, *a.shape), u.dtype))
    y = np.zeros_like(u)
    with np.errstate(all="ignore"):
        if "delta_bias" in tensors:
            delta = delta + tensors["delta_bias"][:, None]
        if scalars["delta_softplus"]:
            delta = np.logaddexp(delta, 0)
        for t in range(length):
            step = delta[..., t, None]
            state = np.exp(step * a) * state + step * u[..., t, None] * b[..., t]
            y[..., t] = (state * c[..., t]).sum(-1)
        if "D" in tensors:
            y = y + tensors["D"][:, None] * u
        if "z" in tensors:
            y = y * (tensors["z"] / (1 + np.exp(-tensors["z"])))
    return y, state


FORMULAS = {"selective_scan": selective_scan}
