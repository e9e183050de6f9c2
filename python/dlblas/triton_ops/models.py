"""Plain data: descriptions of a kernel's inputs, and the results of a measurement and a search.

``TensorSpec`` describes a tensor and creates one; the ``*Input`` classes hold one for each tensor
of an operator, with its shape. Scales of ``FP8Format`` quantise (``q = x · scale``); scales inside
the library dequantise. Read next: validation.py, autotuner/tuner.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from .._arguments import hinted
from ..errors import ArgumentError

__all__ = [
    "FP8Format",
    "FP8GEMMInput",
    "GatedMLPInput",
    "KernelMetrics",
    "RMSNormRoPEInput",
    "TensorSpec",
    "TuningResult",
]

Activation = Literal["silu", "gelu"]


@hinted
@dataclass
class TensorSpec:
    """Shape, dtype, device ("cuda" means any GPU), and whether a tensor must be contiguous."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str = "cuda"
    contiguous: bool = True

    def validate(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor matches this description."""
        wanted = torch.device(self.device)
        return (
            tuple(tensor.shape) == tuple(self.shape)
            and tensor.dtype == self.dtype
            and tensor.device.type == wanted.type
            and (wanted.index is None or tensor.device.index == wanted.index)
            and (not self.contiguous or tensor.is_contiguous())
        )

    def create_tensor(self, fill_value: float | None = None) -> torch.Tensor:
        """Creates such a tensor: filled with ``fill_value``, or with normally distributed draws."""
        if fill_value is not None:
            return torch.full(self.shape, fill_value, device=self.device).to(self.dtype)
        # torch cannot draw f8 or integers, so values are drawn in the default dtype.
        return torch.randn(self.shape, device=self.device).to(self.dtype)


@hinted
@dataclass
class RMSNormRoPEInput:
    """x [B, S, C], weight [C], cos and sin [S, D]."""

    x: TensorSpec
    weight: TensorSpec
    cos: TensorSpec
    sin: TensorSpec
    eps: float = 1e-6

    @classmethod
    def from_shapes(
        cls,
        batch_size: int,
        seq_len: int,
        hidden_dim: int,
        head_dim: int,
        dtype: torch.dtype = torch.float16,
        device: str = "cuda",
        eps: float = 1e-6,
    ) -> RMSNormRoPEInput:
        table = TensorSpec((seq_len, head_dim), dtype, device)
        x = TensorSpec((batch_size, seq_len, hidden_dim), dtype, device)
        weight = TensorSpec((hidden_dim,), dtype, device)
        return cls(x, weight, table, TensorSpec(table.shape, dtype, device), eps)


@hinted
@dataclass
class GatedMLPInput:
    """x [B, S, C], gate_weight and up_weight [F, C]."""

    x: TensorSpec
    gate_weight: TensorSpec
    up_weight: TensorSpec
    activation: Activation = "silu"

    @classmethod
    def from_shapes(
        cls,
        batch_size: int,
        seq_len: int,
        hidden_dim: int,
        intermediate_dim: int,
        activation: Activation = "silu",
        dtype: torch.dtype = torch.float16,
        device: str = "cuda",
    ) -> GatedMLPInput:
        x = TensorSpec((batch_size, seq_len, hidden_dim), dtype, device)
        gate = TensorSpec((intermediate_dim, hidden_dim), dtype, device)
        return cls(x, gate, TensorSpec(gate.shape, dtype, device), activation)


@hinted
@dataclass
class FP8GEMMInput:
    """a [M, K] and b [K, N] in f8 (e4m3fn), with one f32 scale [1] each."""

    a: TensorSpec
    b: TensorSpec
    a_scale: TensorSpec
    b_scale: TensorSpec
    output_dtype: torch.dtype = torch.float16

    @classmethod
    def from_shapes(
        cls,
        M: int,  # noqa: N803 - their names
        N: int,  # noqa: N803
        K: int,  # noqa: N803
        output_dtype: torch.dtype = torch.float16,
        device: str = "cuda",
    ) -> FP8GEMMInput:
        a = TensorSpec((M, K), torch.float8_e4m3fn, device)
        b = TensorSpec((K, N), torch.float8_e4m3fn, device)
        a_scale, b_scale = (TensorSpec((1,), torch.float32, device) for _ in range(2))
        return cls(a, b, a_scale, b_scale, output_dtype)


@hinted
@dataclass
class KernelMetrics:
    """One measurement; an unknown value is 0."""

    latency_ms: float
    throughput_tflops: float
    bandwidth_gbps: float
    bandwidth_utilization: float  # percent of the device's peak

    def __str__(self) -> str:
        return (
            f"Latency: {self.latency_ms:.3f} ms, Throughput: {self.throughput_tflops:.2f} TFLOPS, "
            f"Bandwidth: {self.bandwidth_gbps:.1f} GB/s ({self.bandwidth_utilization:.1f}%)"
        )


@hinted
@dataclass
class TuningResult:
    """The best configuration of a search, and every one that ran; ``all_results`` is empty if the
    result came from a cache."""

    best_config: dict[str, Any]
    metrics: KernelMetrics
    all_results: list[tuple[dict[str, Any], KernelMetrics]] = field(default_factory=list)
    problem_size: tuple[int, ...] | None = None
    device: str | None = None

    def __str__(self) -> str:
        knobs = ", ".join(f"{name}={value}" for name, value in self.best_config.items())
        return f"Best config: {{{knobs}}}\n{self.metrics}"


@hinted
@dataclass
class FP8Format:
    """E4M3: its range, and scales that map values into it (``x · scale``)."""

    exponent_bits: int = 4
    mantissa_bits: int = 3
    max_value: float = 448.0
    min_normal: float = 2**-6

    @staticmethod
    @hinted
    def compute_scale(tensor: torch.Tensor) -> torch.Tensor:
        """One f32 scale that maps the largest magnitude to 448; 1 for a tensor that is empty or all
        zeros; at most 2¹²⁶, as in ``quantize_fp8``."""
        return FP8Format._scale_of(tensor.abs().amax() if tensor.numel() else tensor.new_zeros(()))

    @staticmethod
    @hinted
    def compute_scale_per_channel(tensor: torch.Tensor, dim: int = 0) -> torch.Tensor:
        """One scale per slice, with ``dim`` reduced to 1. ArgumentError if the tensor does not have
        ``dim``."""
        rank = tensor.dim()
        if not -rank <= dim < rank:
            expected = f"{-rank} to {rank - 1}" if rank else "a tensor with dimensions"
            raise ArgumentError.from_library(
                f"FP8Format.compute_scale_per_channel: dim is out of range; expected {expected}, "
                f"got {dim}",
                "FP8Format.compute_scale_per_channel", "dim", expected, str(dim),
            )  # fmt: skip
        if tensor.shape[dim]:
            return FP8Format._scale_of(tensor.abs().amax(dim=dim, keepdim=True))
        return FP8Format._scale_of(tensor.sum(dim=dim, keepdim=True))  # zeros

    @staticmethod
    def _scale_of(largest: torch.Tensor) -> torch.Tensor:
        wide = largest.float()
        scale = (FP8Format.max_value / wide).clamp(max=2.0**126)  # of a denormal: infinite
        return torch.where(wide == 0, torch.ones_like(wide), scale)

    @staticmethod
    @hinted
    def is_in_range(tensor: torch.Tensor, scale: torch.Tensor) -> bool:
        """Whether every scaled value is within ±448; NaN is not."""
        if not tensor.numel():
            return True
        return bool((tensor.float() * scale).abs().max() <= FP8Format.max_value)
