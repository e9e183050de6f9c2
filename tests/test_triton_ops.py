"""dlblas.triton_ops: the names of Triton Fused Operators, with what their callers rely on.

Without a GPU, tensors on "cuda" are fakes: shape, dtype, strides and device, no memory.
"""

from __future__ import annotations

import pickle

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
from dlblas import errors, triton_ops  # noqa: E402
from dlblas.triton_ops import exceptions, models, validation  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from triton_ops_shared import HALF, gpu, python  # noqa: E402


@pytest.fixture
def fakes():
    with FakeTensorMode():
        yield


# ---- exceptions ----------------------------------------------------------------------------------

FIELDS = {
    "ShapeMismatchError": ("expected", "actual", "tensor_name"),
    "UnsupportedDtypeError": ("dtype", "supported_dtypes", "tensor_name"),
    "DeviceError": ("expected_device", "actual_device", "tensor_name"),
    "TuningFailedError": ("problem_size", "configs_tried", "last_error"),
    "NumericalOverflowError": ("max_value", "scale", "attempts"),
}
VALUES = [(2, 16), (2, 8), "x"]


@pytest.mark.parametrize("name", FIELDS)
def test_errors_are_the_librarys_own_and_carry_their_fields(name):
    cls = getattr(exceptions, name)
    assert cls is getattr(errors, name) is getattr(triton_ops, name)
    assert issubclass(cls, exceptions.TritonKernelError)
    fields = FIELDS[name]
    given = dict(zip(fields, VALUES, strict=True))
    calls = [cls("what happened", **given), cls("what happened", *VALUES)]
    if name != "NumericalOverflowError":  # its message is not optional
        calls += [cls(*VALUES), cls(**given), cls(VALUES[0], VALUES[1], **{fields[2]: VALUES[2]})]
    for error in calls:
        assert [getattr(error, field) for field in fields] == VALUES
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error) and getattr(again, fields[0]) == VALUES[0]
    assert str(calls[0]) == str(calls[1]) == "what happened"
    assert all(str(VALUES[0]) in str(error) for error in calls[2:])


def test_an_error_may_be_a_message_alone():
    error = errors.ShapeMismatchError("no heads")
    assert str(error) == "no heads" and error.expected is None and error.tensor_name is None
    with pytest.raises(TypeError, match="takes a message and expected, actual, tensor_name"):
        errors.ShapeMismatchError("no heads", wrong=1)
    with pytest.raises(TypeError):
        errors.DeviceError("a", "b", "c", "d", "e")


# ---- models --------------------------------------------------------------------------------------


def test_a_spec_validates_and_creates():
    spec = models.TensorSpec((4, 8), torch.float32, "cpu")
    tensor = spec.create_tensor()
    assert spec.validate(tensor) and tensor.std() > 0
    assert not spec.validate(torch.empty(4, 9))
    assert not spec.validate(torch.empty(4, 8, dtype=HALF))
    assert not spec.validate(torch.empty(8, 4).T)
    assert models.TensorSpec((4, 8), torch.float32, "cpu", False).validate(torch.empty(8, 4).T)
    assert not models.TensorSpec((4, 8), torch.float32).validate(tensor)  # the default is a GPU
    filled = models.TensorSpec((2, 2), torch.float8_e4m3fn, "cpu").create_tensor(1.5)
    assert filled.dtype == torch.float8_e4m3fn and (filled.float() == 1.5).all()
    drawn = models.TensorSpec((64,), torch.float8_e4m3fn, "cpu").create_tensor()
    assert len(drawn.float().unique()) > 8
    assert models.TensorSpec((2, 3), HALF, "meta").create_tensor().device.type == "meta"


def test_a_spec_on_a_gpu(fakes):
    spec = models.TensorSpec((4, 8), HALF)
    assert spec.validate(gpu(4, 8)) and not spec.validate(torch.empty(4, 8, dtype=HALF))
    assert models.TensorSpec((4,), HALF, "cuda:0").validate(gpu(4))
    assert not models.TensorSpec((4,), HALF, "cuda:1").validate(gpu(4))


def test_inputs_from_shapes():
    rope = models.RMSNormRoPEInput.from_shapes(2, 16, 256, 64, eps=1e-5)
    assert [s.shape for s in (rope.x, rope.weight, rope.cos, rope.sin)] == [
        (2, 16, 256), (256,), (16, 64), (16, 64),
    ]  # fmt: skip
    assert rope.eps == 1e-5 and rope.x.device == "cuda" and rope.x.dtype == HALF
    mlp = models.GatedMLPInput.from_shapes(2, 16, 256, 512, "gelu", torch.bfloat16, "cpu")
    assert mlp.gate_weight.shape == mlp.up_weight.shape == (512, 256) and mlp.activation == "gelu"
    assert mlp.x.create_tensor().shape == (2, 16, 256)
    gemm = models.FP8GEMMInput.from_shapes(M=8, N=4, K=16, output_dtype=torch.bfloat16)
    assert (gemm.a.shape, gemm.b.shape, gemm.a_scale.shape) == ((8, 16), (16, 4), (1,))
    assert gemm.a.dtype == torch.float8_e4m3fn and gemm.b_scale.dtype == torch.float32
    assert gemm.output_dtype == torch.bfloat16


def test_metrics_and_results_in_words():
    metrics = models.KernelMetrics(1.5, 10.0, 1000.0, 50.0)
    text = "Latency: 1.500 ms, Throughput: 10.00 TFLOPS, Bandwidth: 1000.0 GB/s (50.0%)"
    assert str(metrics) == text
    result = models.TuningResult({"BLOCK_SIZE": 128, "num_warps": 4}, metrics)
    assert str(result) == f"Best config: {{BLOCK_SIZE=128, num_warps=4}}\n{text}"
    assert result.all_results == [] and result.problem_size is None and result.device is None


def test_scales_make_values_fit():
    x = torch.tensor([[1.0, -4.0], [0.0, 0.0]])
    scale = models.FP8Format.compute_scale(x)
    assert scale == 112.0 and scale.dtype == torch.float32
    assert models.FP8Format.is_in_range(x, scale)
    assert not models.FP8Format.is_in_range(x, 2 * scale)
    assert models.FP8Format.compute_scale(torch.zeros(3)) == 1.0
    scales = models.FP8Format.compute_scale_per_channel(x, dim=1)
    assert scales.shape == (2, 1) and scales.flatten().tolist() == [112.0, 1.0]
    assert models.FP8Format().max_value == torch.finfo(torch.float8_e4m3fn).max


# ---- validation ----------------------------------------------------------------------------------


def test_cpu_tensors_are_refused():
    x, w, table = torch.ones(2, 4, 8), torch.ones(8), torch.ones(4, 4)
    calls = [
        lambda: validation.validate_rmsnorm_rope_inputs(x, w, table, table),
        lambda: validation.validate_gated_mlp_inputs(x, torch.ones(16, 8), torch.ones(16, 8)),
        lambda: validation.validate_fp8_gemm_inputs(x[0], torch.ones(8, 4)),
        lambda: validation.validate_fp8_quantize_inputs(x),
    ]
    for call in calls:
        with pytest.raises(exceptions.DeviceError, match="expected cuda, got cpu") as caught:
            call()
        assert caught.value.expected_device == "cuda" and caught.value.actual_device == "cpu"


def rope(**changed):
    given = {"x": gpu(2, 16, 256), "weight": gpu(256), "cos": gpu(16, 64), "sin": gpu(16, 64)}
    return validation.validate_rmsnorm_rope_inputs(**{**given, **changed})


def test_rope_inputs(fakes):
    assert rope() == (2, 16, 256, 64, 4)
    table = gpu(1, 16, 1, 64)
    assert rope(cos=table, sin=table, num_heads=4) == (2, 16, 256, 64, 4)
    wrong = {
        "x": gpu(2, 16, 256, 1),
        "weight": gpu(128),
        "cos": gpu(8, 64),
        "sin": gpu(16, 32),
    }
    for name, tensor in wrong.items():
        with pytest.raises(exceptions.ShapeMismatchError) as caught:
            rope(**{name: tensor})
        assert caught.value.tensor_name == name and caught.value.actual == tuple(tensor.shape)
    with pytest.raises(exceptions.ShapeMismatchError, match="heads of 64"):
        rope(num_heads=3)
    with pytest.raises(exceptions.ShapeMismatchError):
        rope(cos=gpu(2, 16, 1, 64), sin=gpu(2, 16, 1, 64))
    with pytest.raises(exceptions.ShapeMismatchError):
        rope(cos=gpu(16, 0), sin=gpu(16, 0))


def test_dtypes_and_strides_are_refused(fakes):
    with pytest.raises(exceptions.UnsupportedDtypeError) as caught:
        rope(x=gpu(2, 16, 256, dtype=torch.int32))
    assert caught.value.dtype == torch.int32 and HALF in caught.value.supported_dtypes
    with pytest.raises(ValueError, match=r"x is not contiguous.*call \.contiguous\(\)"):
        rope(x=gpu(16, 2, 256).transpose(0, 1))
    with pytest.raises(exceptions.DeviceError, match="expected cuda:0, got cuda:1"):
        rope(sin=torch.empty(16, 64, dtype=HALF, device="cuda:1"))


def test_mlp_inputs(fakes):
    x, weight = gpu(2, 16, 256), gpu(512, 256)
    assert validation.validate_gated_mlp_inputs(x, weight, weight) == (2, 16, 256, 512)
    with pytest.raises(ValueError, match="activation is unknown; expected silu or gelu, got relu"):
        validation.validate_gated_mlp_inputs(x, weight, weight, activation="relu")
    with pytest.raises(exceptions.ShapeMismatchError):
        validation.validate_gated_mlp_inputs(x, weight, gpu(256, 256))
    with pytest.raises(exceptions.ShapeMismatchError):
        validation.validate_gated_mlp_inputs(x, gpu(512, 128), gpu(512, 128))


def test_f8_inputs(fakes):
    a, b = gpu(8, 16, dtype=torch.float8_e4m3fn), gpu(16, 4, dtype=torch.float8_e4m3fn)
    scale = gpu(1, dtype=torch.float32)
    assert validation.validate_fp8_gemm_inputs(a, b, scale, scale) == (8, 4, 16)
    assert validation.validate_fp8_gemm_inputs(gpu(8, 16), gpu(16, 4)) == (8, 4, 16)
    with pytest.raises(ValueError, match="b_scale is missing"):
        validation.validate_fp8_gemm_inputs(a, b, scale)
    with pytest.raises(exceptions.ShapeMismatchError):
        validation.validate_fp8_gemm_inputs(a, gpu(8, 4), scale)
    with pytest.raises(exceptions.UnsupportedDtypeError):
        validation.validate_fp8_gemm_inputs(a, b, scale, scale, torch.int8)
    validation.validate_fp8_quantize_inputs(gpu(3, 5))
    with pytest.raises(exceptions.UnsupportedDtypeError):
        validation.validate_fp8_quantize_inputs(gpu(3), gpu(1))
    with pytest.raises(exceptions.ShapeMismatchError):
        validation.validate_fp8_quantize_inputs(gpu(3), gpu(2, dtype=torch.float32))


def test_plain_numbers():
    validation.validate_positive_dimensions(M=1, N=2)
    validation.validate_head_dim(64)
    validation.validate_eps(1e-6)
    for call in (
        lambda: validation.validate_positive_dimensions(M=1, N=0),
        lambda: validation.validate_head_dim(63),
        lambda: validation.validate_eps(0.0),
        lambda: validation.validate_eps(float("nan")),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()


def test_import_dlblas_brings_none_of_it():
    code = "import sys, dlblas; assert not {'torch', 'dlblas.triton_ops'} & set(sys.modules)"
    python(code)
