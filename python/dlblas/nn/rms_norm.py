"""RMSNorm, alone or preceded by the residual sum.

Drop-in for torch.nn.RMSNorm over the last dimension and for Hugging Face's LlamaRMSNorm: one
parameter, ``weight``. Eager calls go through dlblas.x(), compiled and exported ones through
torch.ops.dlblas.x. Read next: ../torch/_autograd.py.
"""

from __future__ import annotations

from typing import Any, overload

import torch

from .._arguments import hinted
from .._functions import FUNCTIONS
from ..errors import ArgumentError
from ._shape import last_dimension

_rms_norm, _add_rms_norm = FUNCTIONS["rms_norm"].call, FUNCTIONS["add_rms_norm"].call


@hinted
class RMSNorm(torch.nn.Module):
    """``y = x · rsqrt(mean(x²) + eps) · (weight + weight_offset)`` over the last dimension.

    ``forward(x)`` returns y; ``forward(x, residual)`` adds first and returns ``(y, x + residual)``.
    ``weight_offset=1`` is Gemma's zero-centred gain; ``cast_before_weight=True`` rounds to x's
    dtype before the weight, as Hugging Face's Llama does. The result has x's dtype; the weight has
    x's dtype or f32. Without ``elementwise_affine`` there is no parameter and no multiplication.
    """

    weight: torch.nn.Parameter | None

    def __init__(
        self,
        normalized_shape: int | tuple[int] | list[int] | torch.Size,
        eps: float = 1e-6,
        elementwise_affine: bool = True,
        *,
        weight_offset: float = 0.0,
        cast_before_weight: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        shape = last_dimension("RMSNorm", normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.weight_offset = weight_offset
        self.cast_before_weight = cast_before_weight
        self.elementwise_affine = elementwise_affine
        if not elementwise_affine and weight_offset:
            raise ArgumentError.from_library(
                f"RMSNorm: weight_offset has no weight; expected 0 without elementwise_affine, "
                f"got {weight_offset}; leave it out",
                "RMSNorm", "weight_offset", "0", str(weight_offset),
            )  # fmt: skip
        if elementwise_affine:
            self.weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            self.register_parameter("weight", None)

    def reset_parameters(self) -> None:
        """Sets the gain ``weight + weight_offset`` to 1."""
        if self.weight is not None:
            torch.nn.init.constant_(self.weight, 1.0 - self.weight_offset)

    @overload
    def forward(self, x: torch.Tensor) -> torch.Tensor: ...
    @overload
    def forward(
        self, x: torch.Tensor, residual: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]: ...
    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
        weight, eps, offset, cast = (
            self.weight, self.eps, self.weight_offset, self.cast_before_weight
        )  # fmt: skip
        if torch.compiler.is_compiling():  # a graph holds operators, not functions of ours
            ops = torch.ops.dlblas
            if residual is None:
                return ops.rms_norm(x, weight, eps, offset, cast)
            return ops.add_rms_norm(x, weight, residual, eps, offset, cast)
        if residual is None:
            return _rms_norm(x, weight, eps, weight_offset=offset, cast_before_weight=cast)
        return _add_rms_norm(
            x, weight, residual, eps, weight_offset=offset, cast_before_weight=cast
        )

    def extra_repr(self) -> str:
        text = f"{self.normalized_shape}, eps={self.eps}"
        if not self.elementwise_affine:
            text += ", elementwise_affine=False"
        if self.weight_offset:
            text += f", weight_offset={self.weight_offset}"
        return text + (", cast_before_weight=True" if self.cast_before_weight else "")
