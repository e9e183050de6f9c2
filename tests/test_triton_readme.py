"""What users of Triton Fused Operators start with, only the import changed: functions, modules,
tuner, suite and verifier, on the CPU and, where there is one, a GPU. FP8 has the accuracy of e4m3.

Read next: docs/names.md, python/dlblas/triton_ops/.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dlblas.triton_ops import (  # noqa: E402
    BenchmarkSuite,
    CorrectnessVerifier,
    FP8Linear,
    FusedGatedMLP,
    FusedRMSNormRoPE,
    GatedMLPInput,
    TritonAutoTuner,
    dequantize_fp8,
    fp8_gemm,
    fused_gated_mlp,
    fused_rmsnorm_rope,
    quantize_fp8,
)
from dlblas.triton_ops.benchmark import verify_fp8_accuracy, verify_nan_inf_propagation  # noqa: E402
from dlblas.triton_ops.kernels import (  # noqa: E402
    fp8_gemm_reference,
    fused_gated_mlp_reference,
    fused_rmsnorm_rope_reference,
)


@pytest.fixture(name="like", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def of_a_device(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.manual_seed(3)
    return {"device": request.param, "dtype": torch.float16}


def test_functions(like: dict[str, Any]) -> None:
    verifier = CorrectnessVerifier(rtol=2e-3, atol=2e-3)
    x, weight = torch.randn(2, 16, 256, **like), torch.ones(256, **like)
    cos, sin = torch.randn(16, 64, **like), torch.randn(16, 64, **like)
    y = fused_rmsnorm_rope(x, weight, cos, sin)
    assert verifier.verify(y, fused_rmsnorm_rope_reference(x, weight, cos, sin))[0]

    gate, up = (torch.randn(384, 256, **like) / 16 for _ in range(2))
    for activation in ("silu", "gelu"):
        y = fused_gated_mlp(x, gate, up, activation=activation)
        assert y.shape == (2, 16, 384) and y.dtype == torch.float16
        assert verifier.verify(y, fused_gated_mlp_reference(x, gate, up, activation))[0]
    with pytest.raises(ValueError, match="activation"):
        fused_gated_mlp(x, gate, up, activation="tanh")

    a, b = torch.randn(32, 256, **like), torch.randn(256, 48, **like)
    exact, product = (a.float() @ b.float()), fp8_gemm(a, b)
    assert product.dtype == torch.float16
    assert (product.float() - exact).norm() <= 4.5e-2 * exact.norm()
    (qa, a_scale), (qb, b_scale) = quantize_fp8(a), quantize_fp8(b)
    product = fp8_gemm(qa, qb, a_scale, b_scale)
    wanted = fp8_gemm_reference(qa, qb, a_scale, b_scale).float()  # sums cancel: of the whole
    assert (product.float() - wanted).norm() <= 2e-3 * wanted.norm()
    assert verify_fp8_accuracy(dequantize_fp8(qa, a_scale), a, max_relative_error=0.07)[0]


def test_modules(like: dict[str, Any]) -> None:
    norm = FusedRMSNormRoPE(hidden_dim=256, head_dim=64).to(**like)
    mlp = FusedGatedMLP(hidden_dim=256, intermediate_dim=384, activation="silu").to(**like)
    linear = FP8Linear(256, 256).to(like["device"])
    x = torch.randn(2, 16, 256, **like)
    cos, sin = torch.randn(16, 64, **like), torch.randn(16, 64, **like)
    assert mlp(norm(x, cos, sin)).shape == (2, 16, 384)
    assert linear(x).shape == (2, 16, 256)
    holes = x.clone()
    holes[0, 0, 0] = torch.nan
    assert verify_nan_inf_propagation(mlp(holes), True, False)[0]


class TransformerBlock(torch.nn.Module):
    """From their README: parameters in f32, as modules create them, and no ``torch.no_grad``."""

    def __init__(
        self, hidden_dim: int = 256, head_dim: int = 64, intermediate_dim: int = 384
    ) -> None:
        super().__init__()
        self.norm = FusedRMSNormRoPE(hidden_dim, head_dim)
        self.mlp = FusedGatedMLP(hidden_dim, intermediate_dim, activation="silu")
        self.proj = FP8Linear(intermediate_dim, hidden_dim)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        return self.proj(self.mlp(self.norm(x, cos, sin)))


def test_the_block_of_their_readme(like: dict[str, Any]) -> None:
    x = torch.randn(2, 16, 256, **like)
    cos, sin = torch.randn(16, 64, **like), torch.randn(16, 64, **like)
    for block in (TransformerBlock().to(like["device"]), TransformerBlock().to(**like)):
        y = block(x, cos, sin)
        assert y.shape == x.shape and y.dtype == x.dtype and y.isfinite().all()
        h = fused_rmsnorm_rope_reference(x, block.norm.weight, cos, sin)
        h = fused_gated_mlp_reference(h, block.mlp.gate_weight, block.mlp.up_weight)
        weight = block.proj.weight.float() / block.proj.weight_scale
        wanted = torch.nn.functional.linear(h.float(), weight)
        assert (y.float() - wanted).norm() <= 4.5e-2 * wanted.norm()
        y.float().square().mean().backward()
        assert all(p.grad is not None and p.grad.any() for p in block.parameters())


def test_models_make_inputs(like: dict[str, Any]) -> None:
    spec = GatedMLPInput.from_shapes(2, 16, 64, 96, device=like["device"])
    x, gate, up = (s.create_tensor() for s in (spec.x, spec.gate_weight, spec.up_weight))
    assert fused_gated_mlp(x, gate, up, spec.activation).shape == (2, 16, 96)


def test_suite_and_tuner(like: dict[str, Any], tmp_path: Any) -> None:
    suite = BenchmarkSuite(warmup_runs=1, benchmark_runs=3)
    suite.benchmark_rmsnorm_rope(batch_sizes=[1, 2], seq_lens=[16], hidden_dims=[128])
    found = suite.benchmark_gated_mlp(
        batch_sizes=[1, 2], seq_lens=[16], hidden_dims=[64], intermediate_dims=[96, 128]
    )
    assert [one.problem_size[-1] for one in found] == [96, 128, 96, 128]
    assert all(one.correctness and one.metrics.throughput_tflops > 0 for one in found)
    suite.benchmark_fp8_gemm([16], [32], [64])
    text = suite.generate_report()
    assert "WRONG" not in text and "14 of 14 right" in text, text
    for name in ("fused_rmsnorm_rope", "fused_gated_mlp"):
        assert f"{name} beside eager" in text and f"{name} (" in text
    suite.save_report(tmp_path / "report.json", "json")
    read = json.loads((tmp_path / "report.json").read_text())
    assert len(read["results"]) == 7 and len(read["comparisons"]) == 7

    def kernel(x: Any, block: int) -> Any:
        return torch.stack([part.sum() for part in x.flatten().split(block)]).sum()

    tuner = TritonAutoTuner(kernel, {"block": [64, 256]}, warmup_runs=1, benchmark_runs=3)
    size = {"problem_size": (16, 64), "device": like["device"], "kernel_type": "sum"}
    best = tuner.tune(torch.ones(16, 64, device=like["device"]), **size).best_config
    assert best in ({"block": 64}, {"block": 256})
