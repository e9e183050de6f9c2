"""LayerNorm over the last dimension: torch.nn.LayerNorm's parameters, one kernel.

Eager calls go through dlblas.layer_norm(), compiled and exported ones through
torch.ops.dlblas.layer_norm. Read next: ../torch/_autograd.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .._arguments import hinted
from .._functions import FUNCTIONS
from ._shape import last_dimension

_layer_norm = FUNCTIONS["layer_norm"].call


@hinted
class LayerNorm(torch.nn.Module):
    """``y = (x − mean(x)) · rsqrt(var(x) + eps) · weight + bias`` over the last dimension.

    The variance is biased. Arguments, parameters and ``state_dict`` are those of
    ``torch.nn.LayerNorm``: ``weight`` and ``bias``, both absent without ``elementwise_affine``,
    ``bias`` alone with ``bias=False``. The result has x's dtype; the parameters have x's dtype or
    f32.
    """

    weight: torch.nn.Parameter | None
    bias: torch.nn.Parameter | None

    def __init__(
        self,
        normalized_shape: int | tuple[int] | list[int] | torch.Size,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        shape = last_dimension("LayerNorm", normalized_shape)
        self.normalized_shape, self.eps = shape, eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            made = torch.empty(shape, device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, None if made is None else torch.nn.Parameter(made))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the gain to 1 and the bias to 0."""
        if self.weight is not None:
            torch.nn.init.ones_(self.weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # A graph holds operators, not our Python functions.
        compiling = torch.compiler.is_compiling()
        call = torch.ops.dlblas.layer_norm if compiling else _layer_norm
        y: torch.Tensor = call(x, self.weight, self.bias, self.eps)
        return y

    def extra_repr(self) -> str:
        text = f"{self.normalized_shape}, eps={self.eps}"
        return text + f", elementwise_affine={self.elementwise_affine}"
