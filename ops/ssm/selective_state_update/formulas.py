"""selective_state_update in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/ssm/step_oracle.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def selective_state_update(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    x, dt, heads = tensors["x"], tensors["dt"], tensors["x"].shape[1]
    b, c = (np.repeat(t, heads // max(1, t.shape[1]), 1) for t in (tensors["B"], tensors["C"]))
    with np.errstate(all="ignore"):
        if "dt_bias" in tensors:
            dt = dt + tensors["dt_bias"]
        if scalars["dt_softplus"]:
            dt = np.logaddexp(dt, 0)
        decay = np.exp(dt[..., None] * tensors["A"])
        state = decay * tensors["state"] + (dt * x)[..., None] * b[:, :, None]
        y = (state * c[:, :, None]).sum(-1)
        if "D" in tensors:
            y = y + tensors["D"] * x
        if "z" in tensors:
            y = y * (tensors["z"] / (1 + np.exp(-tensors["z"])))
    return y, state


FORMULAS = {"selective_state_update": selective_state_update}
