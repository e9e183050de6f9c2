"""The gradient of fused_rotary_emb: the rotation by negative frequencies. Read next:
../inverse.py."""

from __future__ import annotations

from typing import Any

import torch

from .rope_inverse import in_style  # ops/rope/inverse.py


def fused_rotary_emb(
    q: None, k: None, position_ids: torch.Tensor, inv_freq: torch.Tensor, scaling_factor: float,
    style: str, dq: torch.Tensor, dk: torch.Tensor,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of q and k."""
    turned = in_style(
        style,
        lambda way: torch.ops.dlblas.fused_rotary_emb(
            dq, dk, position_ids, -inv_freq, scaling_factor, style=way
        ),
    )
    return (*turned, None, None)


GRADIENTS: dict[str, Any] = {"fused_rotary_emb": fused_rotary_emb}
