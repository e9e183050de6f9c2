"""selective_state_update in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def selective_state_update(
    state: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,  # noqa: N803 - the arguments' names
    B: torch.Tensor,  # noqa: N803
    C: torch.Tensor,  # noqa: N803
    D: torch.Tensor,  # noqa: N803
    z: torch.Tensor,
    dt_bias: torch.Tensor,
    dt_softplus: bool,
) -> torch.Tensor:
    step = dt.float() + dt_bias
    if dt_softplus:
        step = torch.nn.functional.softplus(step)
    heads = x.shape[1]
    b, c = (t.repeat_interleave(heads // t.shape[1], 1).unsqueeze(2) for t in (B, C))
    new = torch.exp(step.unsqueeze(-1) * A) * state + (step * x).unsqueeze(-1) * b
    state.copy_(new)
    y = (new * c).sum(-1) + D * x
    return (y * torch.nn.functional.silu(z.float())).to(x.dtype)
