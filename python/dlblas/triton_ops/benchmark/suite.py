"""``BenchmarkSuite``: kernels against references and rivals, on the library's own measuring.

In: functions, and the arguments that both take. Out: results, collected into a report. Functions
that are compared run in turns, round by round, so that a neighbour on the machine slows both; a
latency is the median. Read next: ../autotuner/clock.py, correctness.py, report.py.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch

from ... import _absent, _native
from ..autotuner import arrays, clock
from ..kernels import (
    fp8_gemm,
    fp8_gemm_reference,
    fused_rmsnorm_rope,
    fused_rmsnorm_rope_reference,
    quantize_fp8,
)
from ..models import KernelMetrics
from .correctness import CorrectnessVerifier
from .report import BenchmarkResult, ComparisonResult, PerformanceReport


class BenchmarkSuite:
    """Checks with ``CorrectnessVerifier(rtol, atol).verify_allclose``, then measures."""

    def __init__(
        self,
        warmup_runs: int = 10,
        benchmark_runs: int = 100,
        rtol: float = 1e-3,
        atol: float = 1e-5,
    ) -> None:
        self.warmup_runs, self.benchmark_runs = warmup_runs, benchmark_runs
        self.verifier = CorrectnessVerifier(rtol, atol)
        self.report = PerformanceReport()
        self.report.set_metadata("device", _device_row(torch.cuda.is_available()).get("model"))
        self.report.set_metadata("torch", torch.__version__)

    def benchmark_kernel(
        self,
        kernel_fn: Callable[..., torch.Tensor],
        reference_fn: Callable[..., torch.Tensor],
        kernel_name: str,
        problem_size: tuple[int, ...],
        *args: Any,
        config: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Time and correctness of ``kernel_fn(*args, **kwargs)``. ``bandwidth_gbps`` counts each
        tensor of the arguments and the result once; operations are not known, so
        ``throughput_tflops`` is 0."""
        made = kernel_fn(*args, **kwargs)
        right = self.verifier.verify_allclose(made, reference_fn(*args, **kwargs))
        (metrics,) = self._measure([kernel_fn], args, kwargs, made)
        result = BenchmarkResult(kernel_name, tuple(problem_size), config or {}, metrics, right)
        self.report.add_result(result)
        return result

    def compare_with_pytorch(
        self,
        triton_fn: Callable[..., torch.Tensor],
        pytorch_fn: Callable[..., torch.Tensor],
        kernel_name: str,
        problem_size: tuple[int, ...],
        *args: Any,
        **kwargs: Any,
    ) -> ComparisonResult:
        """Both, in turns; ``speedup`` is the other's latency over the kernel's."""
        made = triton_fn(*args, **kwargs)
        right = self.verifier.verify_allclose(made, pytorch_fn(*args, **kwargs))
        ours, theirs = self._measure([triton_fn, pytorch_fn], args, kwargs, made)
        speedup = theirs.latency_ms / ours.latency_ms if ours.latency_ms else float("inf")
        comparison = ComparisonResult(
            kernel_name, tuple(problem_size), ours, theirs, speedup, right
        )
        self.report.add_comparison(comparison)
        return comparison

    def benchmark_rmsnorm_rope(
        self,
        batch_sizes: Iterable[int],
        seq_lens: Iterable[int],
        hidden_dims: Iterable[int],
        head_dim: int = 64,
    ) -> list[BenchmarkResult]:
        """``fused_rmsnorm_rope`` in f16 on a GPU where torch has one, else on the CPU."""
        options: dict[str, Any] = {
            "device": "cuda" if torch.cuda.is_available() else "cpu",
            "dtype": torch.float16,
        }
        results = []
        for batch, length, width in itertools.product(batch_sizes, seq_lens, hidden_dims):
            x = torch.randn(batch, length, width, **options)
            weight = torch.randn(width, **options)
            cos, sin = (torch.randn(length, head_dim, **options) for _ in range(2))
            size = (batch, length, width)
            found = self.benchmark_kernel(
                fused_rmsnorm_rope, fused_rmsnorm_rope_reference, "fused_rmsnorm_rope", size,
                x, weight, cos, sin,
            )  # fmt: skip
            results.append(found)
        return results

    def benchmark_gated_mlp(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """ImportError: the operator is not in this version."""
        _absent.refuse("dlblas.triton_ops.fused_gated_mlp", "fused_gated_mlp")

    def benchmark_fp8_gemm(
        self, m_sizes: Iterable[int], n_sizes: Iterable[int], k_sizes: Iterable[int]
    ) -> list[BenchmarkResult]:
        """``fp8_gemm`` of f8 codes and their scales, on a GPU where torch has one, else on the
        CPU."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        results = []
        for m, n, k in itertools.product(m_sizes, n_sizes, k_sizes):
            a, a_scale = quantize_fp8(torch.randn(m, k, device=device))
            b, b_scale = quantize_fp8(torch.randn(k, n, device=device))
            found = self.benchmark_kernel(
                fp8_gemm, fp8_gemm_reference, "fp8_gemm", (m, n, k), a, b, a_scale, b_scale
            )
            results.append(found)
        return results

    def generate_report(self, format: str = "text") -> str:
        """As "text" or "json"."""
        return self.report.generate(format)

    def save_report(self, filepath: str | os.PathLike[str], format: str = "text") -> None:
        self.report.save(filepath, format)

    def _measure(
        self,
        functions: list[Callable[..., Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        made: Any,
    ) -> list[KernelMetrics]:
        tensors = list(arrays.tensors_in([*args, *kwargs.values(), made]))
        gpu = any(t.is_cuda for t in tensors)
        runs = {i: _call(function, args, kwargs) for i, function in enumerate(functions)}
        for run in runs.values():
            for _ in range(self.warmup_runs):
                run()
        measure = clock.on_gpu if gpu else clock.on_host
        times = measure(runs, max(1, self.benchmark_runs))
        moved = sum(t.numel() * t.element_size() for t in tensors)
        peak = _device_row(gpu).get("rates", {}).get("memory_bytes_per_s", 0.0)
        return [_metrics(statistics.median(times[i]), moved, peak) for i in runs]


def _call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[], Any]:
    return lambda: function(*args, **kwargs)


def _metrics(latency_ms: float, moved: int, peak: float) -> KernelMetrics:
    rate = moved / (latency_ms * 1e-3) if latency_ms else 0.0
    return KernelMetrics(latency_ms, 0.0, rate * 1e-9, 100 * rate / peak if peak else 0.0)


def _device_row(gpu: bool) -> dict[str, Any]:
    """What the library knows of the first such device."""
    kind = "cuda" if gpu else "cpu"
    rows = [row for row in _native.info()["devices"] if row["device"].startswith(kind)]
    return rows[0] if rows else {}
