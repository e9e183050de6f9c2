"""``dlblas.triton_ops.api``: functions and modules in one place.

Read next: kernels/.
"""

from .. import _absent
from .kernels import (
    FusedGatedMLP,
    FusedRMSNormRoPE,
    dequantize_fp8,
    fused_gated_mlp,
    fused_rmsnorm_rope,
    quantize_fp8,
)

__all__ = [
    "FusedGatedMLP",
    "FusedRMSNormRoPE",
    "dequantize_fp8",
    "fused_gated_mlp",
    "fused_rmsnorm_rope",
    "quantize_fp8",
]

__getattr__ = _absent.some(__name__)
