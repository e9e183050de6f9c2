"""SiluAndMul and GeluAndMul: gated products of a fused projection, without parameters.

Eager calls go through dlblas.x(), compiled and exported ones through torch.ops.dlblas.x. Read next:
../../../ops/activation/silu_and_mul/silu_and_mul.py.
"""

from __future__ import annotations

import torch

from .._arguments import hinted
from .._functions import FUNCTIONS
from ..errors import ArgumentError


class _Gated(torch.nn.Module):
    op: str  # the operator's name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # A graph holds operators, not our Python functions.
        compiling = torch.compiler.is_compiling()
        y: torch.Tensor = (
            getattr(torch.ops.dlblas, self.op)(x) if compiling else FUNCTIONS[self.op].call(x)
        )
        return y


@hinted
class SiluAndMul(_Gated):
    """``y = silu(x[..., :F]) · x[..., F:]`` of x ``[*T, 2F]``, rounded once."""

    op = "silu_and_mul"

    def __init__(self) -> None:
        super().__init__()


@hinted
class GeluAndMul(_Gated):
    """``y = gelu(x[..., :F]) · x[..., F:]`` of x ``[*T, 2F]``, rounded once.

    ``approximate`` is ``"none"`` (the error function) or ``"tanh"``, as in torch.nn.GELU.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        ops = {"none": "gelu_and_mul", "tanh": "gelu_tanh_and_mul"}
        if not isinstance(approximate, str) or approximate not in ops:
            expected = " or ".join(repr(name) for name in ops)
            raise ArgumentError.from_library(
                f"GeluAndMul: approximate is not offered; expected {expected}, got {approximate!r}",
                "GeluAndMul", "approximate", expected, repr(approximate),
            )  # fmt: skip
        self.approximate, self.op = approximate, ops[approximate]

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"
