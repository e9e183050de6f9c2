"""Implementations that crash or hang a process: what a worker is for. Registered at import, so that
a worker has them too. Read next: test_own_worker.py."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import dlblas
import numpy as np


@dlblas.register("rms_norm", "own_crash")
def own_crash(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    ctypes.string_at(8)


@dlblas.register("rms_norm", "own_exit")
def own_exit(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    os._exit(3)


@dlblas.register("rms_norm", "own_hang")
def own_hang(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    time.sleep(3600)


@dlblas.register("rms_norm", "own_huge")
def own_huge(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = np.ones(1 << 46, np.uint8)[0]


@dlblas.register("rms_norm", "own_good")
def own_good(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    f = x.astype(np.float64)
    scale = 1 / np.sqrt((f * f).mean(-1, keepdims=True) + eps)
    y[...] = f * scale * (weight + weight_offset)
