"""linear_rope in NumPy and f64: an independent check of the oracle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .mlp_formulas import linear  # ops/mlp/formulas.py


def linear_rope(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    y = linear(tensors["x"], tensors["weight"])
    if "bias" in tensors:
        y = y + tensors["bias"]
    heads, width = scalars["heads"], tensors["cos"].shape[-1]
    lead, turned = y.shape[:-1], heads * width
    z = y[..., :turned].reshape(math.prod(lead), heads, width)
    rows = np.arange(len(z)) % max(1, len(tensors["cos"]))
    cos, sin = (tensors[name][rows][:, None] for name in ("cos", "sin"))
    half = width // 2
    neox = scalars["style"] == "neox"
    low, high = (z[..., :half], z[..., half:]) if neox else (z[..., 0::2], z[..., 1::2])
    first = low * cos[..., :half] - high * sin[..., :half]
    second = high * cos[..., half:] + low * sin[..., half:]
    both = (first, second)
    q = np.concatenate(both, -1) if neox else np.stack(both, -1).reshape(z.shape)
    return (np.concatenate((q.reshape(*lead, turned), y[..., turned:]), -1),)


FORMULAS = {"linear_rope": linear_rope}
