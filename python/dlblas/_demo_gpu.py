"""The demo on a GPU: bf16 torch tensors, torch (cuBLAS, its fused norms) as the rival, and device
times with inputs read from memory.

Read next: _demo_host.py, bench/gpu_timing.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _native, _specs
from ._demo_host import Ceilings, Row, Side
from .bench.gpu_timing import interleaved, rotation

_PEAK = 8192  # rows, columns and depth of the product whose rate is the peak
_MAX_SETS = 64


def _torch_add_rms_norm(x: Any, weight: Any, residual: Any, eps: float = 1e-6) -> Any:
    h = x + residual
    return torch.nn.functional.rms_norm(h, (h.shape[-1],), weight, eps), h


def _torch_rms_norm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)


TORCH: dict[str, Callable[..., Any]] = {
    "matmul": torch.matmul,
    "rms_norm": _torch_rms_norm,
    "add_rms_norm": _torch_add_rms_norm,
}


class GpuCeilings(Ceilings):
    """The device's copy rate, and the rate of cuBLAS on a large square bf16 product: the tensor
    cores' peak within the power limit."""

    peak_name = f"cuBLAS at {_PEAK}³"

    def __init__(self, known: Row, device: str) -> None:
        super().__init__(known)
        self.device = device

    def measure(self, num_bytes: int) -> tuple[float, float]:
        index = int(self.device.partition(":")[2] or 0)
        copy = _native.machine_ceilings(0, num_bytes, index)[0]
        return copy, self.peak or self._product_rate()

    def _product_rate(self) -> float:
        shape = (_PEAK, _PEAK)
        a, b = (torch.randn(shape, device=self.device).to(torch.bfloat16) for _ in range(2))
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        times, _ = interleaved(
            {"product": lambda _: torch.matmul(a, b)}, 1, 5, {"product": lambda: None}, stream
        )
        return float(2 * _PEAK**3 / (times["product"].min_ms * 1e-3))


class GpuSide(Side):
    """A CUDA device."""

    rival, timed, dtype, itemsize = "torch", "on the device", "bf16", 2

    def __init__(self, request: Row) -> None:
        super().__init__(request)
        self.device = request["device"]
        torch.cuda.set_device(self.device)
        self.ceilings = GpuCeilings(request["ceilings"], self.device)
        self.generator = torch.Generator(self.device).manual_seed(7)

    def arrays(self, row: Row, case: Row) -> dict[str, Any]:
        specs = _specs.tensor_specs(row, case["dims"], {"": self.dtype}, {})
        return {
            name: torch.randn(
                spec.shape, generator=self.generator, device=self.device, dtype=torch.float32
            ).to(torch.bfloat16)
            for name, spec in specs.items()
        }

    def rows_to_check(self, rows: int, flops: int) -> list[int] | None:
        return None  # the device's oracle compares all of them in a fraction of a second

    def times(self, op: str, call: Any, tensors: Row, result: Any, scalars: Row) -> Row:
        # One rotation of the inputs, with the rival's own results on top, exceeds the L2 cache.
        moved = sum(t.nbytes for t in tensors.values())
        sets = rotation(moved, _MAX_SETS).sets
        inputs = [tuple(t.clone() for t in tensors.values()) for _ in range(sets)]
        formula = TORCH[op]
        contestants = {
            "dlblas": lambda i: call(*inputs[i]),
            "torch": lambda i: formula(*inputs[i], **scalars),
        }
        if self.request["pass"] == 2:
            del contestants["torch"]
        prepare = dict.fromkeys(contestants, lambda: None)
        rounds = 5 if self.request["timing_s"] < 1 else 30
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        times, failed = interleaved(contestants, sets, rounds, prepare, stream)
        if "dlblas" in failed:
            raise _specs.refuse(
                "demo", op, "was not timed", "a capture", failed["dlblas"], "see it"
            )
        return {name: samples.as_dict() for name, samples in times.items()}
