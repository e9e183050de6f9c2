"""``fp8_gemm`` and ``FP8Linear`` under the names of Triton Fused Operators, and a reference in
plain torch, to read and to test against.

Scales multiply here, ``q = x · scale``. Read next: ops/gemm/api.py (the function),
../../nn/fp8_linear.py (the module).
"""

from __future__ import annotations

import torch

from ..._arguments import hinted
from ..._faces import fp8_gemm
from ...nn.fp8_linear import FP8Linear
from .fp8_quantize import _one, quantize_fp8_reference

__all__ = ["FP8Linear", "fp8_gemm", "fp8_gemm_reference"]


@hinted
def fp8_gemm_reference(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor | float | None = None,
    b_scale: torch.Tensor | float | None = None,
    output_dtype: torch.dtype = torch.float16,
) -> torch.Tensor:
    """``(a / a_scale) · (b / b_scale)`` in f32, rounded to ``output_dtype``; floats are quantised
    first, as in ``fp8_gemm``."""

    def widened(x: torch.Tensor, scale: torch.Tensor | float | None) -> torch.Tensor:
        if x.dtype == torch.uint8:
            x = x.view(torch.float8_e4m3fn)
        if x.dtype != torch.float8_e4m3fn:
            x, scale = quantize_fp8_reference(x, scale)
        assert scale is not None, "codes come with their scale"
        return x.float() / _one(scale, x)

    return (widened(a, a_scale) @ widened(b, b_scale)).to(output_dtype)
