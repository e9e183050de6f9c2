"""The demo on the CPU: f32 arrays, NumPy as the rival, this machine's ceilings.

Out: ``Side``, what a pass asks of a device. Read next: _demo_gpu.py (the same on a GPU),
_demo_pass.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _native, _specs
from .bench.timing import interleaved

Row = dict[str, Any]

_WHOLE = 1 << 30  # multiply-adds of the oracle: above, chosen rows are compared
_ROWS = 64


# --- the same mathematics in plain NumPy: what one would write without the library ---------------


def _matmul(a: Any, b: Any) -> Any:
    return a @ b


def _rms_norm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)) * weight


def _add_rms_norm(x: Any, weight: Any, residual: Any, eps: float = 1e-6) -> Any:
    h = x + residual
    return _rms_norm(h, weight, eps), h


NUMPY: dict[str, Callable[..., Any]] = {
    "matmul": _matmul,
    "rms_norm": _rms_norm,
    "add_rms_norm": _add_rms_norm,
}


class Ceilings:
    """A device's copy rate for a working set, and its peak in products: measured once a size."""

    peak_name = "f32 peak"

    def __init__(self, known: Row) -> None:
        self.copy: dict[str, float] = dict(known.get("copy", {}))  # bytes → bytes a second
        self.peak: float = known.get("peak", 0.0)  # the best of all: neighbours lower it

    def measure(self, num_bytes: int) -> tuple[float, float]:
        return _native.machine_ceilings(0, num_bytes)

    def at(self, num_bytes: int) -> tuple[float, float]:
        half = max(4096, num_bytes // 2)  # a copy of half the bytes moves them all
        if str(half) not in self.copy:
            self.copy[str(half)], peak = self.measure(half)
            self.peak = max(self.peak, peak)
        return self.copy[str(half)], self.peak

    def rated(self, moved: int, flops: int) -> tuple[str, float]:
        """The ceiling that binds, and the milliseconds it allows."""
        copy, peak = self.at(moved)
        by_copy, by_peak = moved / copy * 1e3, flops / peak * 1e3
        return (self.peak_name, by_peak) if by_peak > by_copy else ("copy rate", by_copy)


class Side:
    """The CPU; _demo_gpu.py has the GPU."""

    rival, timed, dtype, itemsize = "NumPy", "a call from Python", "f32", 4

    def __init__(self, request: Row) -> None:
        self.request = request
        self.ceilings = Ceilings(request["ceilings"])
        self.random = np.random.default_rng(7)

    def arrays(self, row: Row, case: Row) -> dict[str, Any]:
        specs = _specs.tensor_specs(row, case["dims"], {"": self.dtype}, {})
        return {
            name: self.random.standard_normal(spec.shape, dtype=np.float32)
            for name, spec in specs.items()
        }

    def work(self, row: Row, dims: Row, tensors: dict[str, Any]) -> tuple[int, int]:
        """Bytes that a run must move, and the operations of a matrix product."""
        results = sum(math.prod(_specs.shape_of(r["dims"], dims)) for r in row["results"])
        moved = sum(a.nbytes for a in tensors.values()) + self.itemsize * results
        return moved, 2 * math.prod(dims.values()) if row["name"] == "matmul" else 0

    def rows_to_check(self, rows: int, flops: int) -> list[int] | None:
        """None: all. Else evenly spread rows with the first and the last."""
        if flops < 2 * _WHOLE:
            return None
        return sorted({round(i * (rows - 1) / (_ROWS + 1)) for i in range(_ROWS + 2)})

    def times(self, op: str, call: Any, tensors: Row, result: Any, scalars: Row) -> Row:
        """Ours by "dlblas"; the rival's, known from the first pass, by its name."""
        positional = tuple(tensors.values())
        formula = NUMPY[op]
        limit, settle_ms = self.request["timing_s"], 0.0
        if op == "matmul":  # NumPy's has a pool of threads
            settle_ms = self.request["settle_ms"]
        contestants = {
            "dlblas": lambda: call(*positional, out=result),
            "numpy": lambda: formula(*positional, **scalars),
        }
        if self.request["pass"] == 2:
            del contestants["numpy"]
        return {
            name: s.as_dict()
            for name, s in interleaved(contestants, limit_s=limit, settle_ms=settle_ms).items()
        }
