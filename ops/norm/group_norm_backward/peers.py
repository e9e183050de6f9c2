"""group_norm_backward in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def group_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, inner: int,
    activation: str = "", eps: float = 1e-5,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    groups, each = weight.shape
    images = x.view(-1, groups * each, inner)
    y, mean, rstd = torch.ops.aten.native_group_norm(
        images, weight.flatten(), bias.flatten(), *images.shape, groups, eps
    )
    g = dy.view_as(images)
    if activation:
        g = torch.ops.aten.silu_backward(g, y)
    return tuple(
        torch.ops.aten.native_group_norm_backward(
            g, images, mean, rstd, weight.flatten(), *images.shape, groups, [True, True, True]
        )
    )
