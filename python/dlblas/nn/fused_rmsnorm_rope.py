"""FusedRMSNormRoPE: RMS norm over all heads of a projection, then their rotation.

One parameter, ``weight``, like torch.nn.RMSNorm over the same width. Read next:
../../../ops/rope/api.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .._arguments import hinted
from .._faces import fused_rmsnorm_rope
from .._given import converted, integer
from ..errors import ShapeMismatchError


def widened(x: Any, weight: Any, cos: Any, sin: Any) -> tuple[Any, Any, Any]:
    """Converts tensors that have neither x's dtype nor f32 to f32; both tables get one dtype."""
    weight, cos, sin = (converted(t, x, to_f32=True) for t in (weight, cos, sin))
    return weight, converted(cos, sin, to_f32=True), converted(sin, cos, to_f32=True)


@hinted
class FusedRMSNormRoPE(torch.nn.Module):
    """``fused_rmsnorm_rope(x, weight, cos, sin, eps)`` of x ``[B, S, hidden_dim]``, tables [S, D].

    Heads have ``head_dim`` channels; ``num_heads`` is ``hidden_dim / head_dim``. Only the first
    ``head_dim / 2`` columns of the tables are read; they need no others. weight and tables that
    have neither x's dtype nor f32 are converted to f32, with a copy at every call. Gradients of x,
    weight and tables are computed by torch's own operators.
    """

    weight: torch.nn.Parameter

    def __init__(
        self,
        hidden_dim: int,
        head_dim: int,
        eps: float = 1e-6,
        *,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        hidden_dim = integer("FusedRMSNormRoPE", "hidden_dim", hidden_dim)
        head_dim = integer("FusedRMSNormRoPE", "head_dim", head_dim)
        if hidden_dim < 0:
            expected = "0 or more"
            raise ShapeMismatchError.from_library(
                f"FusedRMSNormRoPE: hidden_dim does not fit; expected {expected}, got {hidden_dim}",
                "FusedRMSNormRoPE", "hidden_dim", expected, str(hidden_dim),
            )  # fmt: skip
        if head_dim <= 0 or head_dim % 2 or hidden_dim % head_dim:
            raise ShapeMismatchError.from_library(
                f"FusedRMSNormRoPE: head_dim does not fit; expected an even divisor of hidden_dim "
                f"{hidden_dim}, got {head_dim}",
                "FusedRMSNormRoPE", "head_dim", f"an even divisor of {hidden_dim}", str(head_dim),
            )  # fmt: skip
        self.hidden_dim, self.head_dim, self.eps = hidden_dim, head_dim, eps
        self.num_heads = hidden_dim // head_dim
        self.weight = torch.nn.Parameter(torch.empty(hidden_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.ones_(self.weight)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        weight, cos, sin = widened(x, self.weight, cos, sin)
        y: torch.Tensor = fused_rmsnorm_rope(x, weight, cos, sin, self.eps, self.num_heads)
        return y

    def extra_repr(self) -> str:
        return f"{self.hidden_dim}, {self.head_dim}, eps={self.eps}"
