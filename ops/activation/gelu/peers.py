"""gelu in torch: the benchmark peer, eager and compiled."""

from __future__ import annotations

import torch


def gelu(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = torch.nn.functional.gelu(x)
    return y
