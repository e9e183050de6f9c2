"""A correct rms_norm that changes the floating-point environment and does not restore it.
Registered at import, so that a worker has it too."""

from __future__ import annotations

import ctypes
from typing import Any

import dlblas
import numpy as np

UPWARD = 0x800  # FE_UPWARD on x86-64
LIBM = ctypes.CDLL("libm.so.6")


@dlblas.register("rms_norm", "rounds_up", deterministic=True)
def rounds_up(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    f = x.astype(np.float64)
    y[...] = f / np.sqrt((f * f).mean(-1, keepdims=True) + eps) * (weight + weight_offset)
    LIBM.fesetround(UPWARD)
