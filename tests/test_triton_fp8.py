"""``quantize_fp8`` and ``dequantize_fp8`` of dlblas.triton_ops: scales multiply.

The same file runs on a GPU with -m gpu. Read next:
python/dlblas/triton_ops/kernels/fp8_quantize.py.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("dlblas.torch")

from dlblas import errors  # noqa: E402
from dlblas.triton_ops import (  # noqa: E402
    FP8Format,
    dequantize_fp8,
    kernels,
    quantize_fp8,
    quantize_fp8_with_overflow_handling,
)

DEVICES = [pytest.param("cpu", id="cpu"), pytest.param("cuda", id="cuda", marks=pytest.mark.gpu)]
F8 = torch.float8_e4m3fn


def steps(a, b):
    """How many codes apart two tensors of codes are, per element."""
    return (a.view(torch.uint8).int() - b.view(torch.uint8).int()).abs()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_scale_multiplies(dtype, device):
    torch.manual_seed(2)
    x = (3 * torch.randn(7, 11, 64, device=device)).to(getattr(torch, dtype))
    q, scale = quantize_fp8(x)
    assert q.dtype is F8 and q.shape == x.shape
    assert scale.dtype is torch.float32 and scale.shape == ()
    torch.testing.assert_close(scale, FP8Format.compute_scale(x), rtol=2.0**-22, atol=0)
    plain = (x.float() * scale).clamp(-448, 448).to(F8)
    off = steps(q, plain)
    assert off.max() <= 1 and (off > 0).float().mean() < 2e-3  # products on a tie
    for out in (torch.float16, torch.bfloat16, torch.float32):
        y = dequantize_fp8(q, scale, out)
        assert y.dtype is out
        torch.testing.assert_close(y.float(), q.float() / scale, rtol=2.0**-8, atol=0)
        torch.testing.assert_close(y.float(), x.float(), rtol=2.0**-3, atol=2.0**-9 / scale.item())
    assert torch.equal(dequantize_fp8(q.view(torch.uint8), scale), dequantize_fp8(q, scale))


@pytest.mark.parametrize("device", DEVICES)
def test_a_scale_that_is_given_is_kept(device):
    x = torch.linspace(-900, 900, 1801, device=device).reshape(1, -1)
    for scale in (2.0, torch.tensor(2.0, device=device), torch.tensor([[2.0]], device=device)):
        q, kept = quantize_fp8(x, scale)
        assert kept.shape == () and kept.item() == 2
        assert torch.equal(q.float(), (2 * x).clamp(-448, 448).to(F8).float())
        assert torch.equal(dequantize_fp8(q, scale, torch.float32), q.float() / 2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("value", [0.0, 1e-45, 2.0**-127, 3e38])
def test_extreme_tensors_have_finite_scales(value, device):
    x = torch.full((3, 5), value, device=device)
    q, scale = quantize_fp8(x)
    assert torch.isfinite(scale) and (value > 0 or scale == 1)
    assert torch.isfinite(q.float()).all()
    largest = max(value, 2.0**-126)
    y = dequantize_fp8(q, scale, torch.float32)
    assert ((y.double() - value).abs() <= largest * 2.0**-9).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("value", [0.0, 1e-45, 1e-42, 2.0**-120, 3e38])
def test_scales_of_a_format_are_those_of_the_function(value, device):
    """Finite for every largest value, and 1 if that is zero."""
    x = torch.full((3, 5), value, device=device)
    _, scale = quantize_fp8(x)
    kept = FP8Format.compute_scale(x)
    torch.testing.assert_close(kept, scale, rtol=2.0**-22, atol=0)
    assert torch.isfinite(kept) and FP8Format.is_in_range(x, kept * (1 - 2.0**-22))
    for dim in (0, 1, -1):
        each = FP8Format.compute_scale_per_channel(x, dim)
        assert each.shape[dim] == 1 and torch.equal(each, kept.expand_as(each))


@pytest.mark.parametrize("device", DEVICES)
def test_scales_of_nothing(device):
    for shape in ((0,), (3, 0), (0, 3)):
        x = torch.empty(shape, device=device)
        assert FP8Format.compute_scale(x).item() == 1 and FP8Format.is_in_range(x, x)
        for dim in range(x.dim()):
            each = FP8Format.compute_scale_per_channel(x, dim)
            kept = [*shape]
            kept[dim] = 1
            assert list(each.shape) == kept and bool((each == 1).all())
    assert torch.isnan(FP8Format.compute_scale(torch.tensor([float("nan")], device=device)))
    for dim in (1, -2):
        with pytest.raises(errors.ArgumentError, match="dim is out of range; expected -1 to 0"):
            FP8Format.compute_scale_per_channel(torch.ones(3, device=device), dim)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("scale", [1e-40, -1e-40, 2.0**-127, 2.0**-135, 2.0**-126])
def test_a_scale_whose_inverse_is_no_f32(scale, dtype, device):
    x = torch.tensor([3e38, -1e38, 0.0, float("nan")], device=device).to(getattr(torch, dtype))
    q, kept = quantize_fp8(x, scale)
    want, theirs = kernels.quantize_fp8_reference(x, scale)
    assert torch.equal(kept, theirs)
    assert torch.equal(q.float().nan_to_num(9), want.float().nan_to_num(9)) and q[:2].float().any()


@pytest.mark.parametrize("device", DEVICES)
def test_a_scale_is_halved_while_values_overflow(device):
    x = torch.tensor([[100.0, -200.0, 448.0]], device=device)
    for given, taken in ((0.5, 0.5), (1.0, 1.0), (2.0, 1.0), (6.0, 0.75), (8.0, 1.0)):
        q, scale = quantize_fp8_with_overflow_handling(x, given)
        assert scale.item() == taken
        assert torch.equal(q.float(), quantize_fp8(x, taken)[0].float())
    q, scale = quantize_fp8_with_overflow_handling(3 * x)  # its own scale never overflows
    torch.testing.assert_close(scale.item(), 1 / 3, rtol=1e-6, atol=0)
    assert q.float().abs().max() == 448
    for tensor, given in ((x, 8.1), (x * float("inf"), None)):
        with pytest.raises(errors.NumericalOverflowError, match="after 3 halvings") as caught:
            quantize_fp8_with_overflow_handling(tensor, given)
        assert caught.value.attempts == 3
    for call in (
        quantize_fp8_with_overflow_handling,
        kernels.quantize_fp8_with_overflow_handling_reference,
    ):
        for scale in (None, 1.0, 0.0):
            with pytest.raises(errors.NumericalOverflowError):
                call(torch.tensor([float("inf"), 1.0], device=device), scale)
    with pytest.raises(errors.NumericalOverflowError):
        quantize_fp8_with_overflow_handling(x, 2.0, max_attempts=0)
    with pytest.raises(errors.ArgumentError, match="max_attempts"):
        quantize_fp8_with_overflow_handling(x, 2.0, max_attempts=-1)
    assert quantize_fp8_with_overflow_handling(x[:, :0])[0].shape == (1, 0)


@pytest.mark.gpu
def test_a_capture_is_refused():
    x = torch.ones(4, 8, device="cuda")
    quantize_fp8_with_overflow_handling(x)
    with (
        pytest.raises(errors.UnsupportedError, match="capture"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        quantize_fp8_with_overflow_handling(x)


def test_what_does_not_fit_is_refused():
    x = torch.ones(4, 8)
    q, scale = quantize_fp8(x)
    with pytest.raises(errors.ShapeMismatchError, match="scale"):
        quantize_fp8(x, torch.ones(2))
    with pytest.raises(errors.ShapeMismatchError, match="scale"):
        dequantize_fp8(q, torch.ones(2))
    with pytest.raises(errors.UnsupportedDtypeError, match="tensor"):
        dequantize_fp8(x, scale)
    with pytest.raises(errors.UnsupportedDtypeError):
        quantize_fp8(x.int())


FUNCTIONS = [name for name in kernels.__all__ if "quantize_fp8" in name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_tensor_is_refused_by_name(name):
    call, q = getattr(kernels, name), torch.ones(4, 8).to(F8)
    x = q if name.startswith("de") else torch.ones(4, 8)
    for value in (None, [1.0], "ab", 3):
        with pytest.raises(errors.ArgumentError) as caught:
            call(value, 1.0)
        assert caught.value.argument == "tensor", str(caught.value)
    for value in ([1.0], "ab", {}):
        with pytest.raises(errors.ArgumentTypeError, match="scale is of another type; expected a"):
            call(x, value)
    if name == "quantize_fp8_with_overflow_handling":
        for value in (None, 1.5, "3"):
            with pytest.raises(errors.ArgumentTypeError, match="max_attempts is of another type"):
                call(x, None, value)
    if "overflow" not in name:
        return
    for value in (None, [1.0], "ab", 3):
        with pytest.raises(errors.ArgumentError):
            FP8Format.compute_scale(value)


def test_a_compiled_call_has_the_same_bits():
    def there_and_back(x):
        q, scale = quantize_fp8(x)
        again, _ = quantize_fp8(x, scale)
        return q.view(torch.uint8), again.view(torch.uint8), dequantize_fp8(q, scale)

    torch._dynamo.reset()
    compiled = torch.compile(there_and_back, backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (4, 9):
        x = torch.randn(rows, 40)
        for ours, theirs in zip(compiled(x), there_and_back(x), strict=True):
            assert torch.equal(ours, theirs)
