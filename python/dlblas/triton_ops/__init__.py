"""The names that users of Triton Fused Operators know: ``from dlblas.triton_ops import …``.

Thin calls of the real ones; nothing inside the library depends on this package, and importing it
imports torch. Read next: models.py, validation.py, fp8.py, autotuner/tuner.py.
"""

from . import validation
from .autotuner import (
    FP8_GEMM_CONFIGS,
    GATED_MLP_CONFIGS,
    RMSNORM_ROPE_CONFIGS,
    ConfigCache,
    TritonAutoTuner,
)
from .exceptions import (
    DeviceError,
    NumericalOverflowError,
    ShapeMismatchError,
    TritonKernelError,
    TuningFailedError,
    UnsupportedDtypeError,
)
from .fp8 import dequantize_fp8, quantize_fp8, quantize_fp8_with_overflow_handling
from .models import (
    FP8Format,
    FP8GEMMInput,
    GatedMLPInput,
    KernelMetrics,
    RMSNormRoPEInput,
    TensorSpec,
    TuningResult,
)

__all__ = [
    "FP8_GEMM_CONFIGS",
    "GATED_MLP_CONFIGS",
    "RMSNORM_ROPE_CONFIGS",
    "ConfigCache",
    "DeviceError",
    "FP8Format",
    "FP8GEMMInput",
    "GatedMLPInput",
    "KernelMetrics",
    "NumericalOverflowError",
    "RMSNormRoPEInput",
    "ShapeMismatchError",
    "TensorSpec",
    "TritonAutoTuner",
    "TritonKernelError",
    "TuningFailedError",
    "TuningResult",
    "UnsupportedDtypeError",
    "dequantize_fp8",
    "quantize_fp8",
    "quantize_fp8_with_overflow_handling",
    "validation",
]
