"""``dlblas.triton_ops.kernels``: each function beside its ``*_reference``, on contiguous and
strided tensors, and the names that callers import.

The same file runs on a GPU with -m gpu. Read next: python/dlblas/triton_ops/kernels/.
"""

from __future__ import annotations

import itertools
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("dlblas.torch")

import dlblas  # noqa: E402
from dlblas import errors, triton_ops  # noqa: E402
from dlblas.triton_ops import kernels  # noqa: E402
from dlblas.triton_ops.kernels import fp8_quantize, rmsnorm_rope  # noqa: E402

# The package's functions have the same names as their files, so take these from sys.modules.
fp8_gemm, gated_mlp = (
    sys.modules[f"{kernels.__name__}.{one}"] for one in ("fp8_gemm", "gated_mlp")
)

DEVICES = [pytest.param("cpu", id="cpu"), pytest.param("cuda", id="cuda", marks=pytest.mark.gpu)]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
B, S, H, D = 2, 7, 3, 32


def steps(a, b):
    """How many codes apart two tensors of codes are, per element."""
    return (a.view(torch.uint8).int() - b.view(torch.uint8).int()).abs()


def test_each_function_has_a_reference():
    names = {name for name in kernels.__all__ if not name[0].isupper()}
    functions = {name for name in names if not name.endswith("_reference")}
    assert names - functions == {f"{name}_reference" for name in functions}
    assert functions <= set(triton_ops.__all__)
    files = (fp8_gemm, fp8_quantize, gated_mlp, rmsnorm_rope)
    for name in kernels.__all__:
        assert any(getattr(kernels, name) is getattr(file, name, None) for file in files), name
    assert fp8_quantize.fp8_quantize_reference is kernels.quantize_fp8_reference
    assert fp8_quantize.fp8_dequantize_reference is kernels.dequantize_fp8_reference
    assert triton_ops.fused_rmsnorm_rope is rmsnorm_rope.fused_rmsnorm_rope
    assert triton_ops.fused_gated_mlp is dlblas.fused_gated_mlp
    assert triton_ops.FusedRMSNormRoPE is dlblas.nn.FusedRMSNormRoPE
    assert triton_ops.__version__ == dlblas.__version__  # theirs has one


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_mix_of_dtypes(device, dtype):
    """Theirs widen what they load and store x's dtype; our own operator takes x's dtype and f32."""
    torch.manual_seed(6)
    x = torch.randn(B, S, H * D, device=device).to(dtype)
    drawn = (torch.randn(H * D), torch.randn(S, D), torch.randn(S, D))
    compiled = torch.compile(kernels.fused_rmsnorm_rope, backend="aot_eager", fullgraph=True)
    near = {"rtol": 1.01 * torch.finfo(dtype).eps, "atol": 1e-5}
    for mix in itertools.product(DTYPES, repeat=3):
        weight, cos, sin = (t.to(device, of) for t, of in zip(drawn, mix, strict=True))
        want = kernels.fused_rmsnorm_rope_reference(x, weight, cos, sin)
        module = dlblas.nn.FusedRMSNormRoPE(H * D, D, device=device, dtype=weight.dtype)
        module.weight.data.copy_(weight)
        for got in (kernels.fused_rmsnorm_rope(x, weight, cos, sin), module(x, cos, sin)):
            assert got.dtype is dtype
            torch.testing.assert_close(got.detach(), want, **near)
        gate, up = (torch.randn(5, H * D, device=device).to(of) / 8 for of in mix[:2])
        got = kernels.fused_gated_mlp(x, gate, up)
        want = kernels.fused_gated_mlp_reference(x, gate.to(dtype), up.to(dtype))
        assert got.dtype is dtype
        torch.testing.assert_close(got, want, rtol=near["rtol"], atol=1e-2)
    other = torch.bfloat16 if dtype is torch.float16 else torch.float16
    mixed = (drawn[0].to(device, other), *(t.to(device) for t in drawn[1:]))
    assert compiled(x, *mixed).dtype is dtype
    with pytest.raises(dlblas.errors.UnsupportedDtypeError, match="weight has dtype"):
        dlblas.fused_rmsnorm_rope(x, *mixed)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("duplicated", [True, False])
def test_norm_and_rotation(device, dtype, duplicated):
    torch.manual_seed(5)
    whole = torch.randn(B, S, 2 * H * D, device=device).to(dtype)
    weight = torch.randn(H * D, device=device).to(dtype)
    cos, sin = torch.randn(2, S, D, device=device).to(dtype)
    if duplicated:
        cos, sin = (torch.cat((t[:, : D // 2], t[:, : D // 2]), -1) for t in (cos, sin))
    for x in (whole[..., : H * D].contiguous(), whole[..., H * D :]):
        want = kernels.fused_rmsnorm_rope_reference(x, weight, cos, sin, 1e-5)
        got = kernels.fused_rmsnorm_rope(x, weight, cos, sin, 1e-5, num_heads=H)
        assert got.dtype is want.dtype is dtype and got.shape == want.shape == x.shape
        # One rounding each; f32 sums may cancel.
        torch.testing.assert_close(got, want, rtol=1.01 * torch.finfo(dtype).eps, atol=1e-5)
        near = 6 * torch.finfo(dtype).eps
        full = cos[None, :, None], sin[None, :, None]
        assert torch.equal(kernels.fused_rmsnorm_rope_reference(x, weight, *full, 1e-5), want)
        assert torch.equal(kernels.fused_rmsnorm_rope(x, weight, *full, 1e-5), got)
        # Only the first halves of the tables are read: the textbook's result where they repeat.
        normed = rmsnorm_rope.rmsnorm_reference(x, weight, 1e-5).float().unflatten(-1, (H, D))
        turned = torch.cat((-normed[..., D // 2 :], normed[..., : D // 2]), -1)
        textbook = (normed * cos[:, None].float() + turned * sin[:, None].float()).flatten(-2)
        same = torch.allclose(textbook, want.float(), rtol=near, atol=10 * near)
        assert same is duplicated


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [None, 0.37, 40.0])
def test_codes_there_and_back(device, dtype, scale):
    torch.manual_seed(6)
    x = (5 * torch.randn(9, 3, 50, device=device)).to(dtype)
    for tensor in (x, x.transpose(0, 2), x[..., ::2], torch.zeros_like(x), x[:0]):
        q, taken = kernels.quantize_fp8(tensor, scale)
        wanted, given = kernels.quantize_fp8_reference(tensor, scale)
        assert q.dtype is wanted.dtype is torch.float8_e4m3fn and q.shape == wanted.shape
        torch.testing.assert_close(taken, given, rtol=2.0**-22, atol=0)
        off = steps(q.contiguous(), wanted.contiguous())  # a product on a tie goes either way
        assert off.numel() == 0 or (off.max() <= 1 and (off > 0).float().mean() < 5e-3)
        for out in DTYPES:
            y = kernels.dequantize_fp8(q, taken, out)
            want = kernels.dequantize_fp8_reference(q, taken, out)
            assert y.dtype is want.dtype is out
            torch.testing.assert_close(y, want, rtol=2 * torch.finfo(out).eps, atol=0)
        bits = q.view(torch.uint8)
        again = kernels.dequantize_fp8_reference(bits, taken)
        assert torch.equal(again, kernels.dequantize_fp8_reference(q, taken))


@pytest.mark.parametrize("device", DEVICES)
def test_the_halved_scale_is_the_references(device):
    x = torch.tensor([[100.0, -200.0, 448.0]], device=device)
    for given in (None, 0.5, 1.0, 2.0, 6.0, 8.0):
        q, scale = kernels.quantize_fp8_with_overflow_handling(x, given)
        wanted, taken = kernels.quantize_fp8_with_overflow_handling_reference(x, given)
        torch.testing.assert_close(scale, taken, rtol=2.0**-22, atol=0)
        assert torch.equal(q.float(), wanted.float())
    for tensor, given in ((x, 8.1), (x * float("inf"), 1.0)):
        for call in (
            kernels.quantize_fp8_with_overflow_handling,
            kernels.quantize_fp8_with_overflow_handling_reference,
        ):
            with pytest.raises(errors.NumericalOverflowError):
                call(tensor, given)
