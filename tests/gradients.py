"""What the gradient tests share: random inputs, and derivatives by finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np


def differences(f: Any, at: Any, step: float = 1e-5) -> Any:
    """The gradient of a scalar function by central differences of its f64 values."""
    gradient = np.empty_like(at)
    for index in np.ndindex(*at.shape):
        kept = at[index]
        at[index] = kept + step
        above = f()
        at[index] = kept - step
        gradient[index] = (above - f()) / (2 * step)
        at[index] = kept
    return gradient


def draws(*shapes: Any, seed: int = 5) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
