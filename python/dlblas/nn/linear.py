"""Linear: torch.nn.Linear on ``dlblas.linear``, with an activation in its epilogue.

Parameters, their names and their initial values are torch's. Read next:
../../../ops/gemm/api.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .._arguments import hinted
from .._faces import linear
from ._autocast import cast
from ._offered import check_offered
from ._shape import check_sizes
from .packed_linear import PackedLinear


@hinted
class Linear(torch.nn.Linear):
    """``y = act(x · weightᵀ + bias)`` of x ``[*T, in_features]``, rounded once.

    A drop-in for torch.nn.Linear, also inside torch.autocast; ``activation`` is ``""`` (none),
    ``"relu"``, ``"leaky_relu"``, ``"gelu"`` (erf) or ``"silu"``.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        activation: str = "",
        *,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        offered = ("", "relu", "leaky_relu", "gelu", "silu")
        check_offered("Linear", "activation", activation, offered)
        self.activation = activation

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        x, weight, bias = cast(input, self.weight, self.bias)
        y: torch.Tensor = linear(x, weight, bias, self.activation)
        return y

    def packed(self) -> PackedLinear:
        """This layer for inference on CPUs: a copy whose weight is packed once for all calls."""
        return PackedLinear.of(self.weight, self.bias, self.activation)

    def extra_repr(self) -> str:
        said = super().extra_repr()
        return said + (f", activation={self.activation!r}" if self.activation else "")
