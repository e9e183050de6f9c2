"""group_norm_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: group_norm_backward_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def group_norm_backward(tensors: dict[str, Any], scalars: dict[str, Any], _: Any) -> Any:
    dy, x = tensors["dy"], tensors["x"]
    groups, width = scalars["groups"], x.shape[-1]
    channel = np.arange(width) // scalars["inner"]
    channels = -(-width // scalars["inner"])
    if width == 0:
        return x, np.zeros((groups, 0)), np.zeros((groups, 0))
    phase = np.arange(np.prod(x.shape[:-1], dtype=int)) % groups
    rows = phase.reshape(x.shape[:-1])
    weight = tensors["weight"][rows][..., channel] if "weight" in tensors else np.ones(())
    bias = tensors["bias"][rows][..., channel] if "bias" in tensors else np.zeros(())
    difference = x - np.mean(x, axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.mean(difference**2, axis=-1, keepdims=True) + scalars["eps"])
    n, inner = difference * rstd, dy
    if scalars["activation"]:
        u = n * weight + bias
        s = 1 / (1 + np.exp(-u))
        inner = dy * s * (1 + u * (1 - s))
    g = inner * weight
    slope = np.mean(g * n, axis=-1, keepdims=True)
    dx = rstd * (g - np.mean(g, axis=-1, keepdims=True) - n * slope)

    def of_channels(terms: Any, there: bool) -> Any:
        made = np.zeros((groups, channels))
        if there:
            np.add.at(made, (phase[:, None], channel[None, :]), terms.reshape(-1, width))
        return made

    return dx, of_channels(inner * n, "weight" in tensors), of_channels(inner, "bias" in tensors)


FORMULAS = {"group_norm_backward": group_norm_backward}
