"""The demo on the CPU: f32 arrays, NumPy as the rival, this machine's ceilings.

Out: ``Side``, what a pass needs from a device. Read next: _demo_gpu.py (the same on a GPU),
_demo_pass.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _native, _specs
from ._demo_rival import Rival
from .bench.timing import interleaved

Row = dict[str, Any]

_WHOLE = 1 << 30  # multiply-adds of the oracle: above, chosen rows are compared
_ROWS = 64
_TURNS = 4  # of ours and the rival's: neighbours on the machine then slow both


class Ceilings:
    """A device's copy rate for a working set, and its peak in products: measured once per size."""

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
        """The binding ceiling, and the time that it allows in milliseconds."""
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
        """The bytes that a run must move, and the operation count of a matrix product (else 0)."""
        results = sum(math.prod(_specs.shape_of(r["dims"], dims)) for r in row["results"])
        moved = sum(a.nbytes for a in tensors.values()) + self.itemsize * results
        return moved, 2 * math.prod(dims.values()) if row["name"] == "matmul" else 0

    def rows_to_check(self, rows: int, flops: int) -> list[int] | None:
        """None for all rows, else evenly spread ones that include the first and the last."""
        if flops < 2 * _WHOLE:
            return None
        return sorted({round(i * (rows - 1) / (_ROWS + 1)) for i in range(_ROWS + 2)})

    def times(self, op: str, call: Any, tensors: Row, result: Any, scalars: Row) -> Row:
        """Samples of ours under "dlblas" and, in the first pass only, of the rival under its name.
        The two take turns; the rival runs in its own process, which is stopped while ours runs."""
        positional = tuple(tensors.values())
        turns = _TURNS if self.request["pass"] == 1 else 1
        limit = self.request["timing_s"] / (2 * turns)
        best: Row = {}
        rival = Rival() if self.request["pass"] == 1 else None
        try:
            for _ in range(turns):
                ours = interleaved({"dlblas": lambda: call(*positional, out=result)}, limit_s=limit)
                made = {"dlblas": ours["dlblas"].as_dict()}
                if rival is not None:
                    shapes = [array.shape for array in positional]
                    made["numpy"] = rival.measure(op, shapes, scalars, limit)
                for name, samples in made.items():
                    if name not in best or samples["min_ms"] < best[name]["min_ms"]:
                        best[name] = samples
        finally:
            if rival is not None:
                rival.close()
        return best
