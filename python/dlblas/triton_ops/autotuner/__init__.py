"""Searches a kernel's configurations, under the names of Triton Fused Operators.

For users' kernels that stay outside the library; one that should compete in ``get_op`` is
registered instead (``dlblas.register``). Read next: tuner.py.
"""

from .cache import ConfigCache
from .configs import (
    FP8_GEMM_CONFIGS,
    GATED_MLP_CONFIGS,
    RMSNORM_ROPE_CONFIGS,
    filter_valid_configs,
    generate_configs,
    get_default_config,
)
from .tuner import TritonAutoTuner

__all__ = [
    "FP8_GEMM_CONFIGS",
    "GATED_MLP_CONFIGS",
    "RMSNORM_ROPE_CONFIGS",
    "ConfigCache",
    "TritonAutoTuner",
    "filter_valid_configs",
    "generate_configs",
    "get_default_config",
]
