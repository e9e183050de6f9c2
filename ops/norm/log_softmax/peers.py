"""log_softmax in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(x, -1)
