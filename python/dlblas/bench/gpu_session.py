"""What the sections of a GPU benchmark share: the request, random tensors, rotating buffers.

Used by: gpu.py, gpu_rows.py. Read next: gpu_timing.py.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch

import dlblas
from dlblas.bench.gpu_timing import ROUNDS, Rotation, rotation


class Session:
    """``request``: section, quick, seconds, the time of the request, the seconds within which the
    last problem must begin (None: no limit), the functions to measure (none: all), the share of
    the problems ([1, 4]: the first, fifth …), and, to run only peers, prepare. See gpu.py."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.quick: bool = request["quick"]
        self.seconds: float = request["seconds"]
        self.preparing: bool = bool(request.get("prepare"))
        within = request.get("within")
        self._until: float = request["asked"] + within if within is not None else math.inf
        self._only: list[str] = request.get("only") or []
        first, step = request.get("share") or (1, 1)
        self._first, self._step = int(first), int(step)
        self._offered = 0
        self.rounds = 5 if self.quick else ROUNDS
        self.info = dlblas.info()
        torch.manual_seed(7)

    def late(self) -> bool:
        """True if no further problem may begin."""
        return time.time() > self._until

    def wants(self, function: str) -> bool:
        return not self._only or function in self._only

    def shares(self) -> bool:
        """Whether the next problem belongs to this process: to be asked once for each."""
        self._offered += 1
        return (self._offered - self._first) % self._step == 0

    def normal(self, *shape: int, scale: float = 1.0, offset: float = 0.0) -> torch.Tensor:
        made = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        return made.mul_(scale).add_(offset)

    def rotation(self, bytes_a_set: int) -> Rotation:
        if self.preparing:
            return Rotation(1, bytes_a_set)
        return rotation(bytes_a_set, 4) if self.quick else rotation(bytes_a_set)

    def cuda_implementations(self, op: str) -> list[str]:
        row = next(row for row in self.info["operators"] if row["name"] == op)
        rows = row["implementations"]
        return [i["name"] for i in rows if i["backend"] == "cuda" and not i["oracle"]]
