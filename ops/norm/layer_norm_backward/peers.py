"""layer_norm_backward in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def layer_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, ...]:
    aten, shape, bias = torch.ops.aten, x.shape[-1:], torch.zeros_like(weight)
    _, mean, factor = aten.native_layer_norm(x, shape, weight, bias, eps)
    made = aten.native_layer_norm_backward(
        dy, x, shape, mean, factor, weight, bias, [True, True, True]
    )
    return tuple(made)
