"""``BenchmarkSuite``: kernels against references and rivals, with the library's own timing.

In: functions, and their common arguments. Out: results, collected into a report. Functions that are
compared run in turns, round by round, so that other load on the machine slows both; a latency is
the median. Read next: ../autotuner/clock.py, correctness.py, report.py.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ... import _native
from ..._arguments import hinted
from ..autotuner import arrays, clock
from ..kernels import (
    fp8_gemm,
    fp8_gemm_reference,
    fused_gated_mlp,
    fused_gated_mlp_reference,
    fused_rmsnorm_rope,
    fused_rmsnorm_rope_reference,
    quantize_fp8,
)
from ..models import KernelMetrics
from .correctness import CorrectnessVerifier
from .report import BenchmarkResult, ComparisonResult, PerformanceReport

# Tensor cores add products of f8 codes in some 14 bits. This share of the sum of the products'
# magnitudes is allowed as error.
_OF_F8_SUMS = 2.0**-13


@hinted
class BenchmarkSuite:
    """Checks with ``CorrectnessVerifier(rtol, atol).verify_allclose``, then measures.

    The default tolerances allow one f16 rounding in a kernel and one in its reference, which then
    differ by at most 1e-3: references keep intermediates in f32. A function that rounds
    intermediates, as eager torch in f16 does, needs wider tolerances.
    """

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
        flops: float = 0.0,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Time and correctness of ``kernel_fn(*args, **kwargs)``. ``bandwidth_gbps`` counts each
        tensor of the arguments and the result once; ``throughput_tflops`` is computed from
        ``flops`` operations, and 0 if they are not given."""
        made = kernel_fn(*args, **kwargs)
        right = self.verifier.verify_allclose(made, reference_fn(*args, **kwargs))
        (metrics,) = self._measure([kernel_fn], args, kwargs, made, flops)
        return self._reported(kernel_name, problem_size, config, metrics, right)

    def compare_with_pytorch(
        self,
        triton_fn: Callable[..., torch.Tensor],
        pytorch_fn: Callable[..., torch.Tensor],
        kernel_name: str,
        problem_size: tuple[int, ...],
        *args: Any,
        **kwargs: Any,
    ) -> ComparisonResult:
        """Times both in turns; ``speedup`` is ``pytorch_fn``'s latency over ``triton_fn``'s."""
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
        """Benchmarks ``fused_rmsnorm_rope`` in f16, on a GPU if torch has one, else on the CPU. For
        each result, adds a comparison with eager torch: its norm, and a rotation in x's dtype."""
        options, results = _options(), []
        for batch, length, width in itertools.product(batch_sizes, seq_lens, hidden_dims):
            x = torch.randn(batch, length, width, **options)
            weight = torch.randn(width, **options)
            cos, sin = (torch.randn(length, head_dim, **options) for _ in range(2))
            size = (batch, length, width)
            found = self.benchmark_kernel(
                fused_rmsnorm_rope, fused_rmsnorm_rope_reference, "fused_rmsnorm_rope", size,
                x, weight, cos, sin,
            )  # fmt: skip
            self._against(
                found, {"eager": _eager_rmsnorm_rope}, x, weight, cos, sin,
                kernel=fused_rmsnorm_rope,
            )  # fmt: skip
            results.append(found)
        return results

    def benchmark_gated_mlp(
        self,
        batch_sizes: Iterable[int],
        seq_lens: Iterable[int],
        hidden_dims: Iterable[int],
        intermediate_dims: Iterable[int],
        activation: str = "silu",
    ) -> list[BenchmarkResult]:
        """Benchmarks ``fused_gated_mlp`` in f16, on a GPU if torch has one, else on the CPU. For
        each result, adds a comparison with eager torch: two products of torch's, and the gate."""
        options, results = _options(), []
        for batch, length, width, wide in itertools.product(
            batch_sizes, seq_lens, hidden_dims, intermediate_dims
        ):
            x = torch.randn(batch, length, width, **options)
            weights = [torch.randn(wide, width, **options) / width**0.5 for _ in range(2)]
            size = (batch, length, width, wide)
            found = self.benchmark_kernel(
                fused_gated_mlp, fused_gated_mlp_reference, "fused_gated_mlp", size,
                x, *weights, activation, flops=4.0 * batch * length * width * wide,
            )  # fmt: skip
            self._against(
                found, {"eager": _eager_gated_mlp}, x, *weights, activation, kernel=fused_gated_mlp
            )
            results.append(found)
        return results

    def benchmark_fp8_gemm(
        self, m_sizes: Iterable[int], n_sizes: Iterable[int], k_sizes: Iterable[int]
    ) -> list[BenchmarkResult]:
        """Benchmarks ``fp8_gemm`` on f8 codes and scales, on a GPU if torch has one, else on the
        CPU. For each result, adds a comparison with torch's f16 product (on a GPU, cuBLAS's)."""
        options, results = _options(), []
        for m, n, k in itertools.product(m_sizes, n_sizes, k_sizes):
            a, b = torch.randn(m, k, **options), torch.randn(k, n, **options) / k**0.5
            (qa, a_scale), (qb, b_scale) = quantize_fp8(a), quantize_fp8(b)
            args = (qa, qb, a_scale, b_scale)
            made, expected = fp8_gemm(*args), fp8_gemm_reference(*args)
            size_a, size_b = (codes.float().abs().to(codes.dtype) for codes in (qa, qb))
            sums = fp8_gemm_reference(size_a, size_b, a_scale, b_scale).float()
            forgiven = _OF_F8_SUMS * sums
            near = (made.float() - expected.float()).abs() <= forgiven
            right = self.verifier.verify_allclose(torch.where(near, expected, made), expected)
            (metrics,) = self._measure([fp8_gemm], args, {}, made, 2.0 * m * n * k)
            found = self._reported("fp8_gemm", (m, n, k), None, metrics, right)
            self._against(found, {"f16": torch.matmul}, *args, kernel=fp8_gemm, others=(a, b))
            results.append(found)
        return results

    def generate_report(self, format: str = "text") -> str:
        """The report as "text" or "json"."""
        return self.report.generate(format)

    def save_report(self, filepath: str | os.PathLike[str], format: str = "text") -> None:
        self.report.save(filepath, format)

    def _reported(
        self,
        kernel_name: str,
        problem_size: tuple[int, ...],
        config: dict[str, Any] | None,
        metrics: KernelMetrics,
        right: bool,
    ) -> BenchmarkResult:
        result = BenchmarkResult(kernel_name, tuple(problem_size), config or {}, metrics, right)
        self.report.add_result(result)
        return result

    def _against(
        self,
        found: BenchmarkResult,
        rivals: dict[str, Callable[..., Any]],
        *args: Any,
        kernel: Callable[..., Any],
        others: tuple[Any, ...] | None = None,
    ) -> None:
        """Adds a comparison of the kernel with each rival, timed in turns; ``others``: a rival's
        arguments, if they differ from the kernel's."""
        theirs = args if others is None else others
        for name, rival in rivals.items():
            made = kernel(*args)
            ours, other = self._measure(
                [kernel, lambda *_, rival=rival: rival(*theirs)], args, {}, made,
                found.metrics.throughput_tflops * found.metrics.latency_ms * 1e9,
            )  # fmt: skip
            speedup = other.latency_ms / ours.latency_ms if ours.latency_ms else float("inf")
            self.report.add_comparison(
                ComparisonResult(
                    f"{found.kernel_name} beside {name}", found.problem_size, ours, other, speedup,
                    found.correctness,
                )
            )  # fmt: skip

    def _measure(
        self,
        functions: list[Callable[..., Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        made: Any,
        flops: float = 0.0,
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
        return [_metrics(statistics.median(times[i]), moved, peak, flops) for i in runs]


def _call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[], Any]:
    return lambda: function(*args, **kwargs)


def _metrics(latency_ms: float, moved: int, peak: float, flops: float) -> KernelMetrics:
    seconds = latency_ms * 1e-3
    rate, speed = (moved / seconds, flops / seconds) if seconds else (0.0, 0.0)
    return KernelMetrics(latency_ms, speed * 1e-12, rate * 1e-9, 100 * rate / peak if peak else 0.0)


def _options() -> dict[str, Any]:
    return {"device": "cuda" if torch.cuda.is_available() else "cpu", "dtype": torch.float16}


def _eager_rmsnorm_rope(
    x: torch.Tensor, weight: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """As models write it: torch's own norm, then two products and a sum per half of a head."""
    normed = torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-6)
    heads = torch.unflatten(normed, -1, (-1, cos.shape[-1]))
    half = cos.shape[-1] // 2
    c, s = (t[:, None, :half] for t in (cos, sin))
    low, high = heads[..., :half], heads[..., half:]
    return torch.cat((low * c - high * s, high * c + low * s), -1).flatten(-2)


def _eager_gated_mlp(
    x: torch.Tensor, gate_weight: torch.Tensor, up_weight: torch.Tensor, activation: str
) -> torch.Tensor:
    linear, act = torch.nn.functional.linear, getattr(torch.nn.functional, activation)
    y: torch.Tensor = linear(x, gate_weight) * act(linear(x, up_weight))
    return y


def _device_row(gpu: bool) -> dict[str, Any]:
    """The library's facts about the first device of this kind."""
    kind = "cuda" if gpu else "cpu"
    rows = [row for row in _native.info()["devices"] if row["device"].startswith(kind)]
    return rows[0] if rows else {}
