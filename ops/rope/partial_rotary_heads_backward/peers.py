"""partial_rotary_heads_backward in torch, eager and compiled: the baseline of the benchmarks."""

from __future__ import annotations

import torch


def partial_rotary_heads_backward(
    dq_out: torch.Tensor, dk_out: torch.Tensor, dv_out: torch.Tensor, cos: torch.Tensor,
    sin: torch.Tensor, Dv: int, Dh: int,  # noqa: N803
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    turned = 2 * Dh
    plain = dq_out.shape[-1] - turned
    y = dq_out[..., plain:]
    low, high = (y * cos.unsqueeze(-2)).chunk(2, -1)
    sin_low, sin_high = (y * sin.unsqueeze(-2)).chunk(2, -1)
    back = torch.stack((low + sin_high, high - sin_low), -1).flatten(-2)
    dq = torch.cat((dq_out[..., :plain], back), -1)
    return dq, torch.cat((dk_out[..., :plain], dv_out[..., :Dv]), -1)
