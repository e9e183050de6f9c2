"""The gradient of rope: the inverse rotation, by the rows of the table that positions select. Read
next: ../inverse.py."""

from __future__ import annotations

from typing import Any

import torch

from .rope_inverse import by_angles, rows_at  # ops/rope/inverse.py


def rope(
    q: None, k: None, positions: torch.Tensor, cos_sin_cache: torch.Tensor, style: str,
    dq: torch.Tensor, dk: torch.Tensor,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of q and k."""
    cos, sin = rows_at(cos_sin_cache, positions).chunk(2, -1)
    return (*by_angles(dq, dk, cos, sin, style), None, None)


GRADIENTS: dict[str, Any] = {"rope": rope}
