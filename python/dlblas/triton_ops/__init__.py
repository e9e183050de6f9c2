"""The names that users of Triton Fused Operators know: ``from dlblas.triton_ops import …``.

Thin wrappers of dlblas's own functions; nothing inside the library depends on this package, and
importing it imports torch. Read next: models.py, validation.py, kernels/, autotuner/tuner.py,
benchmark/suite.py.
"""

from .. import _absent, _native
from . import validation
from .autotuner import (
    FP8_GEMM_CONFIGS,
    GATED_MLP_CONFIGS,
    RMSNORM_ROPE_CONFIGS,
    ConfigCache,
    TritonAutoTuner,
    generate_configs,
    get_default_config,
)
from .benchmark import BenchmarkSuite, CorrectnessVerifier, PerformanceReport
from .exceptions import (
    DeviceError,
    NumericalOverflowError,
    ShapeMismatchError,
    TritonKernelError,
    TuningFailedError,
    UnsupportedDtypeError,
)
from .kernels import (
    FP8Linear,
    FusedGatedMLP,
    FusedRMSNormRoPE,
    dequantize_fp8,
    fp8_gemm,
    fused_gated_mlp,
    fused_rmsnorm_rope,
    quantize_fp8,
    quantize_fp8_with_overflow_handling,
)
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
    "BenchmarkSuite",
    "ConfigCache",
    "CorrectnessVerifier",
    "DeviceError",
    "FP8Format",
    "FP8GEMMInput",
    "FP8Linear",
    "FusedGatedMLP",
    "FusedRMSNormRoPE",
    "GatedMLPInput",
    "KernelMetrics",
    "NumericalOverflowError",
    "PerformanceReport",
    "RMSNormRoPEInput",
    "ShapeMismatchError",
    "TensorSpec",
    "TritonAutoTuner",
    "TritonKernelError",
    "TuningFailedError",
    "TuningResult",
    "UnsupportedDtypeError",
    "dequantize_fp8",
    "fp8_gemm",
    "fused_gated_mlp",
    "fused_rmsnorm_rope",
    "generate_configs",
    "get_default_config",
    "quantize_fp8",
    "quantize_fp8_with_overflow_handling",
    "validation",
]

__version__ = _native.version()  # of dlblas

__getattr__ = _absent.some(__name__)
