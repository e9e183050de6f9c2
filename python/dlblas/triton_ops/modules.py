"""The modules of Triton Fused Operators in one place. Read next: ../nn/__init__.py."""

from ..nn.fp8_linear import FP8Linear
from ..nn.fused_rmsnorm_rope import FusedRMSNormRoPE
from ..nn.gated_mlp import FusedGatedMLP

__all__ = ["FP8Linear", "FusedGatedMLP", "FusedRMSNormRoPE"]
