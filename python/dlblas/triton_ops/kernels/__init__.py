"""The operators of Triton Fused Operators, each with a ``*_reference`` in plain torch.

Thin wrappers of the library's functions, which take CPU and strided tensors too. Read next:
rmsnorm_rope.py, gated_mlp.py, fp8_quantize.py, fp8_gemm.py.
"""

from ... import _absent
from .fp8_gemm import FP8Linear, fp8_gemm, fp8_gemm_reference
from .fp8_quantize import (
    dequantize_fp8,
    dequantize_fp8_reference,
    quantize_fp8,
    quantize_fp8_reference,
    quantize_fp8_with_overflow_handling,
    quantize_fp8_with_overflow_handling_reference,
)
from .gated_mlp import FusedGatedMLP, fused_gated_mlp, fused_gated_mlp_reference
from .rmsnorm_rope import FusedRMSNormRoPE, fused_rmsnorm_rope, fused_rmsnorm_rope_reference

__all__ = [
    "FP8Linear",
    "FusedGatedMLP",
    "FusedRMSNormRoPE",
    "dequantize_fp8",
    "dequantize_fp8_reference",
    "fp8_gemm",
    "fp8_gemm_reference",
    "fused_gated_mlp",
    "fused_gated_mlp_reference",
    "fused_rmsnorm_rope",
    "fused_rmsnorm_rope_reference",
    "quantize_fp8",
    "quantize_fp8_reference",
    "quantize_fp8_with_overflow_handling",
    "quantize_fp8_with_overflow_handling_reference",
]

__getattr__ = _absent.some(__name__)
