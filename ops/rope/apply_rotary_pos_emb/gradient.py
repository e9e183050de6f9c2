"""The gradient of apply_rotary_pos_emb: the inverse rotation. Read next: ../inverse.py."""

from __future__ import annotations

from typing import Any

import torch

from .rope_inverse import by_tables  # ops/rope/inverse.py


def apply_rotary_pos_emb(
    q: None, k: None, cos: torch.Tensor, sin: torch.Tensor, style: str, cast_before_sum: bool,
    dq: torch.Tensor, dk: torch.Tensor,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of q and k. With cast_before_sum they round as the results do."""
    return (*by_tables(dq, dk, cos, sin, style, cast_before_sum), None, None)


GRADIENTS: dict[str, Any] = {"apply_rotary_pos_emb": apply_rotary_pos_emb}
