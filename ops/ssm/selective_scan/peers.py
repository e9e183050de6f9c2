"""selective_scan in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def selective_scan(
    u: torch.Tensor,
    delta: torch.Tensor,
    A: torch.Tensor,  # noqa: N803 - the arguments' names
    B: torch.Tensor,  # noqa: N803
    C: torch.Tensor,  # noqa: N803
    D: torch.Tensor,  # noqa: N803
    z: torch.Tensor,
    delta_bias: torch.Tensor,
    delta_softplus: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    step = delta.float() + delta_bias[:, None]
    if delta_softplus:
        step = torch.nn.functional.softplus(step)
    channels = u.shape[1]
    b, c = (t.float().repeat_interleave(channels // t.shape[1], 1) for t in (B, C))
    state = torch.zeros(*u.shape[:2], A.shape[1], device=u.device)
    made = []
    for t in range(u.shape[2]):
        now = step[..., t, None]
        state = torch.exp(now * A) * state + now * u[..., t, None] * b[..., t]
        made.append((state * c[..., t]).sum(-1))
    y = torch.stack(made, -1) + D[:, None] * u
    return (y * torch.nn.functional.silu(z.float())).to(u.dtype), state
