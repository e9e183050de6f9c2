"""Measures and checks kernels, under the names of Triton Fused Operators.

Read next: suite.py, correctness.py, report.py.
"""

from .correctness import CorrectnessVerifier, verify_fp8_accuracy, verify_nan_inf_propagation
from .report import BenchmarkResult, ComparisonResult, PerformanceReport
from .suite import BenchmarkSuite

__all__ = [
    "BenchmarkResult",
    "BenchmarkSuite",
    "ComparisonResult",
    "CorrectnessVerifier",
    "PerformanceReport",
    "verify_fp8_accuracy",
    "verify_nan_inf_propagation",
]
