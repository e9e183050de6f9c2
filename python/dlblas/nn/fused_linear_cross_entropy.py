"""FusedLinearCrossEntropy: a language model's head and loss, a few rows of logits at a time.

Read next: ../../../ops/loss/api.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .._arguments import hinted
from .._faces import fused_linear_cross_entropy
from ._autocast import cast


@hinted
class FusedLinearCrossEntropy(torch.nn.Module):
    """The cross entropy of ``x · weightᵀ + bias``, as ``dlblas.fused_linear_cross_entropy``.

    ``forward(x, weight, target, bias=None)``: weight and bias belong to the head's own module.
    ``ce_weight``, one weight per class, is a buffer: it moves with the module but is not in its
    ``state_dict``.
    """

    ce_weight: torch.Tensor | None

    def __init__(
        self,
        ce_weight: torch.Tensor | None = None,
        ignore_index: int = -100,
        lse_square_scale: float = 0.0,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        softcap: float | None = None,
        return_z_loss: bool = False,
    ) -> None:
        super().__init__()
        self.register_buffer("ce_weight", ce_weight, persistent=False)
        self.ignore_index, self.lse_square_scale = ignore_index, lse_square_scale
        self.label_smoothing, self.reduction = label_smoothing, reduction
        self.softcap, self.return_z_loss = softcap, return_z_loss

    def forward(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        target: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> Any:
        x, weight, bias = cast(x, weight, bias)
        return fused_linear_cross_entropy(
            x, weight, target, bias, self.ce_weight, self.ignore_index, self.lse_square_scale,
            self.label_smoothing, self.reduction, self.softcap, self.return_z_loss,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"ignore_index={self.ignore_index}, lse_square_scale={self.lse_square_scale}, "
            f"label_smoothing={self.label_smoothing}, reduction={self.reduction!r}, "
            f"softcap={self.softcap}, return_z_loss={self.return_z_loss}"
        )
