"""``fused_gated_mlp`` and its module under the names of Triton Fused Operators, and a reference in
plain torch, to read and to test against.

Read next: ops/mlp/api.py (the function), ../../nn/gated_mlp.py (the module).
"""

from __future__ import annotations

import torch

from ..._arguments import hinted
from ..._faces import fused_gated_mlp
from ...errors import ArgumentError
from ...nn.gated_mlp import FusedGatedMLP

__all__ = [
    "FusedGatedMLP",
    "fused_gated_mlp",
    "fused_gated_mlp_reference",
    "gated_mlp_reference",
]


@hinted
def fused_gated_mlp_reference(
    x: torch.Tensor,
    gate_weight: torch.Tensor,
    up_weight: torch.Tensor,
    activation: str = "silu",
) -> torch.Tensor:
    """``(x · gate_weightᵀ) ⊙ act(x · up_weightᵀ)`` in f32, rounded to x's dtype; ``activation``, on
    the up branch, is ``silu`` or ``gelu`` (erf). Any other raises ArgumentError, a ValueError."""
    if activation not in ("silu", "gelu"):
        raise ArgumentError(f'activation must be "silu" or "gelu", got {activation!r}')
    wide = x.float()
    gate = torch.nn.functional.linear(wide, gate_weight.float())
    up = torch.nn.functional.linear(wide, up_weight.float())
    act = torch.nn.functional.silu if activation == "silu" else torch.nn.functional.gelu
    y: torch.Tensor = gate * act(up)
    return y.to(x.dtype)


gated_mlp_reference = fused_gated_mlp_reference  # their name
