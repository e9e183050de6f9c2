"""gelu_backward in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def gelu_backward(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    dx: torch.Tensor = torch.ops.aten.gelu_backward(dy, x)
    return dx
