"""``dlblas.triton_ops.api``: functions and modules in one place.

Read next: kernels/.
"""

from .. import _absent
from .kernels import FusedRMSNormRoPE, dequantize_fp8, fused_rmsnorm_rope, quantize_fp8

__all__ = ["FusedRMSNormRoPE", "dequantize_fp8", "fused_rmsnorm_rope", "quantize_fp8"]

__getattr__ = _absent.some(__name__)
