"""layer_norm_backward in NumPy and f64: an independent check of the oracle.

Written from the contract, not from the C++. Read next: layer_norm_backward_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def layer_norm_backward(tensors: dict[str, Any], scalars: dict[str, Any], _: Any) -> Any:
    dy, x = tensors["dy"], tensors["x"]
    rows = tuple(range(x.ndim - 1))
    if x.shape[-1] == 0:
        return x, x.sum(rows), x.sum(rows)
    difference = x - np.mean(x, axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.mean(difference**2, axis=-1, keepdims=True) + scalars["eps"])
    normed, g = difference * rstd, dy * tensors.get("weight", 1.0)
    slope = np.mean(g * normed, axis=-1, keepdims=True)
    dx = rstd * (g - np.mean(g, axis=-1, keepdims=True) - normed * slope)
    return dx, np.sum(dy * normed, axis=rows), np.sum(dy, axis=rows)


FORMULAS = {"layer_norm_backward": layer_norm_backward}
