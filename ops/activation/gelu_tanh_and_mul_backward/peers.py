"""gelu_tanh_and_mul_backward in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def gelu_tanh_and_mul_backward(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    value = torch.nn.functional.gelu(gate, approximate="tanh")
    dgate = torch.ops.aten.gelu_backward(dy * up, gate, approximate="tanh")
    return torch.cat((dgate, dy * value), -1)
