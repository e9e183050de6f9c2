"""GroupNorm over the channels of an image: torch.nn.GroupNorm's parameters, one kernel.

Read next: ../../../ops/norm/api.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .._arguments import hinted
from .._faces import group_norm
from ..errors import ShapeMismatchError
from ._offered import check_offered
from ._shape import check_sizes


@hinted
class GroupNorm(torch.nn.Module):
    """``y = (x − mean) · rsqrt(var + eps) · weight + bias`` over each group of channels and all
    positions; with ``activation="silu"`` then ``y · σ(y)``, in the same kernel.

    x ``[B, num_channels, *spatial]``. The variance is biased. Arguments, parameters and
    ``state_dict`` are those of ``torch.nn.GroupNorm``: ``weight`` and ``bias``, both absent without
    ``affine``. The result has x's dtype; the parameters have x's dtype or f32.
    """

    weight: torch.nn.Parameter | None
    bias: torch.nn.Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str | None = None,
    ) -> None:
        super().__init__()
        check_sizes("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeMismatchError.from_library(
                f"GroupNorm: num_channels does not fit; expected a number that {num_groups} groups "
                f"divide, got {num_channels}",
                "GroupNorm", "num_channels", f"a multiple of {num_groups}", str(num_channels),
            )  # fmt: skip
        check_offered("GroupNorm", "activation", activation, (None, "", "silu"))
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.affine, self.activation = affine, activation
        for name in ("weight", "bias"):
            made = torch.empty(num_channels, device=device, dtype=dtype) if affine else None
            self.register_parameter(name, None if made is None else torch.nn.Parameter(made))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the gain to 1 and the bias to 0."""
        if self.weight is not None:
            torch.nn.init.ones_(self.weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = group_norm(
            x, self.num_groups, self.weight, self.bias, self.eps, self.activation
        )
        return y

    def extra_repr(self) -> str:
        text = f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"
        return text + (f", activation={self.activation!r}" if self.activation else "")
