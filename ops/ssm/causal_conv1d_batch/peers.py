"""causal_conv1d_batch in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def causal_conv1d_batch(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
    activation: str = "",
) -> torch.Tensor:
    taps = weight.shape[1]
    past = x.new_zeros(*x.shape[:2], taps - 1) if state is None else state.to(x.dtype)
    inputs = torch.cat([past, x], -1)
    y = torch.nn.functional.conv1d(inputs, weight[:, None], bias, groups=x.shape[1])
    if state is not None:
        state.copy_(inputs[..., x.shape[2] :])
    return torch.nn.functional.silu(y) if activation else y
