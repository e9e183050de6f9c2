"""PackedLinear: a linear layer for inference on CPUs, whose weight is packed once.

``dlblas.nn.Linear.packed()`` makes one. Read next: ../../../ops/gemm/api.py (linear_packed).
"""

from __future__ import annotations

import torch

from .._arguments import hinted
from .._faces import linear_packed, pack_weight
from ._offered import check_offered
from ._shape import check_sizes

_PACKED = {
    torch.float32: torch.int32,
    torch.bfloat16: torch.int16,
    torch.float16: torch.uint16,
}


@hinted
class PackedLinear(torch.nn.Module):
    """``y = act(x · weightᵀ + bias)`` of x ``[*T, in_features]``, as ``Linear`` computes it, from a
    weight in the order in which CPUs read it.

    ``packed``, ``[out_features, in_features]`` of integers, and ``bias`` are buffers, which
    ``state_dict`` has. x is of ``dtype``, to which it is cast inside torch.autocast. A cast of the
    module leaves the packed weight as it is: its calls are then refused, and so are those on a GPU.
    No gradient.
    """

    packed: torch.Tensor
    bias: torch.Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        activation: str = "",
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_sizes("PackedLinear", in_features=in_features, out_features=out_features)
        super().__init__()
        dtype = dtype or torch.get_default_dtype()
        check_offered("PackedLinear", "dtype", str(dtype), tuple(str(one) for one in _PACKED))
        offered = ("", "relu", "leaky_relu", "gelu", "silu")
        check_offered("PackedLinear", "activation", activation, offered)
        self.in_features, self.out_features = in_features, out_features
        self.activation, self.dtype = activation, dtype
        shape = (out_features, in_features)
        self.register_buffer("packed", torch.zeros(shape, dtype=_PACKED[dtype]))
        self.register_buffer("bias", torch.zeros(out_features, dtype=dtype) if bias else None)

    @classmethod
    def of(
        cls, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str = ""
    ) -> PackedLinear:
        """The layer of this weight, ``[out_features, in_features]``."""
        rows, columns = weight.shape
        with torch.device("meta"):
            made = cls(columns, rows, bias is not None, activation, dtype=weight.dtype)
        made.packed = pack_weight(weight.detach())
        made.bias = None if bias is None else bias.detach().clone()
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        x = input
        if isinstance(x, torch.Tensor) and x.dtype is not self.dtype:
            x = x.to(self.dtype) if torch.is_autocast_enabled(x.device.type) else x
        y: torch.Tensor = linear_packed(x, self.packed, self.bias, self.activation)
        return y

    def extra_repr(self) -> str:
        said = f"in_features={self.in_features}, out_features={self.out_features}, "
        said += f"bias={self.bias is not None}, dtype={self.dtype}"
        return said + (f", activation={self.activation!r}" if self.activation else "")
