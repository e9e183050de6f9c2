"""The gradient of mrope_heads: the inverse rotation, by rows of the table of three positions. Read
next: ../inverse.py."""

from __future__ import annotations

from typing import Any

import torch

from .rope_inverse import by_angles, rows_at  # ops/rope/inverse.py


def mrope_heads(
    q: None, k: None, time: torch.Tensor, height: torch.Tensor, width: torch.Tensor,
    cos_sin_cache: torch.Tensor, first: int, second: int, style: str, dq: torch.Tensor,
    dk: torch.Tensor,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of q and k."""
    rows = [rows_at(cos_sin_cache, at).chunk(2, -1) for at in (time, height, width)]
    cos, sin = (
        torch.cat((t[..., :first], h[..., first:second], w[..., second:]), -1)
        for t, h, w in zip(*rows, strict=True)
    )
    return (*by_angles(dq, dk, cos, sin, style), None, None, None, None)


GRADIENTS: dict[str, Any] = {"mrope_heads": mrope_heads}
