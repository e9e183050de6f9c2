"""``dlblas.triton_ops.api``: functions and modules in one place.

Read next: kernels/.
"""

from .. import _absent
from .kernels import (
    FP8Linear,
    FusedGatedMLP,
    FusedRMSNormRoPE,
    dequantize_fp8,
    fp8_gemm,
    fused_gated_mlp,
    fused_rmsnorm_rope,
    quantize_fp8,
)

__all__ = [
    "FP8Linear",
    "FusedGatedMLP",
    "FusedRMSNormRoPE",
    "dequantize_fp8",
    "fp8_gemm",
    "fused_gated_mlp",
    "fused_rmsnorm_rope",
    "quantize_fp8",
]

__getattr__ = _absent.some(__name__)
