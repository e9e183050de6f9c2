"""scaled_mm and the functions built on it: granularities, scales that are zero, infinite or NaN,
the accuracy that the contract requires, and FP8Linear.

The cases compare each implementation with the oracle; this file tests the Python functions and
their errors. Read next: ops/gemm/api.py, ops/gemm/scaled/scaled_ref.hpp.
"""

from __future__ import annotations

import dlblas
import numpy as np
import pytest
from dlblas import errors

torch = pytest.importorskip("torch")

F8 = torch.float8_e4m3fn
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
# Ragged, whole, one row, and a depth of one block of scales plus one.
SHAPES = [
    (1, 128, 1),
    (17, 129, 127),
    (33, 300, 129),
    (128, 512, 256),
    (129, 2112, 72),
    (17, 7168, 129),
]


@pytest.fixture(params=DEVICES, name="device")
def _device(request) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    return request.param


def drawn(shape, device, kind="normal"):
    generator = torch.Generator().manual_seed(sum(shape))
    x = torch.randn(shape, generator=generator)
    if kind == "positive":
        x = x.abs() + 0.5
    if kind == "outliers":  # a few hundred times the rest
        x[..., ::37] *= 300
    return x.to(device)


def quantized(m, k, n, granularity, device, kind="normal", dtype=F8):
    x, w = drawn((m, k), device, kind), drawn((n, k), device, kind)
    left = {"tensor": "tensor", "token": "token", "group128": "group128"}[granularity]
    right = {"tensor": "tensor", "token": "token", "group128": "block128"}[granularity]
    a, a_scale = dlblas.quantize(x, left, dtype)
    b, b_scale = dlblas.quantize(w, right, dtype)
    exact = dlblas.dequantize(a, a_scale).double() @ dlblas.dequantize(b, b_scale).double().T
    return a, b.T, a_scale, b_scale.T if b_scale.dim() == 2 else b_scale, exact


def error(got, exact):
    return float((got.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("granularity", ["tensor", "token", "group128"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["normal", "positive", "outliers"])
def test_f8_is_as_exact_as_the_contract_asks(granularity, shape, kind, device) -> None:
    a, b, a_scale, b_scale, exact = quantized(*shape, granularity, device, kind)
    call = {"granularity": granularity, "bias": None}
    wide = dlblas.scaled_mm(a, b, a_scale, b_scale, out_dtype=torch.float32, **call)
    # Terms of one sign: what a tensor core truncates accumulates, over at most 128 terms.
    assert error(wide, exact) <= (5e-4 if kind == "normal" else 2e-3)
    assert wide.dtype == torch.float32 and wide.shape == exact.shape
    y = dlblas.scaled_mm(a, b, a_scale, b_scale, **call)
    assert y.dtype == torch.bfloat16
    assert error(y, exact) <= (2e-3 if kind == "normal" and y.numel() > 1 else 2**-8)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_i8_sums_are_exact(shape, device) -> None:
    m, k, n = shape
    a = torch.randint(-128, 128, (m, k), dtype=torch.int8).to(device)
    b = torch.randint(-128, 128, (n, k), dtype=torch.int8).to(device).T
    sums = (a.cpu().long() @ b.cpu().long()).to(device)
    y = dlblas.int8_scaled_mm(a, b, torch.ones(m, 1, device=device), torch.ones(n, device=device),
                              out_dtype=torch.float32)  # fmt: skip
    assert torch.equal(y, sums.float())
    rows, columns = drawn((m, 1), device, "positive"), drawn((n,), device, "positive")
    bias = drawn((n,), device).bfloat16()
    y = dlblas.int8_scaled_mm(a, b, rows, columns, torch.bfloat16, bias)
    exact = sums.double() * (rows * columns).double() + bias.double()
    assert error(y, exact) <= 2**-8
    assert torch.equal(y, dlblas.scaled_mm(a, b, rows, columns, granularity="token", bias=bias))


def test_numbers_are_scales_and_one_of_a_side_may_be_for_all(device) -> None:
    a, b, a_scale, b_scale, _ = quantized(9, 200, 33, "token", device)
    one = drawn((1,), device, "positive")
    for rows, columns in ((a_scale, one), (one, b_scale), (one, one)):
        y = dlblas.scaled_mm(a, b, rows, columns, granularity="token", out_dtype=torch.float32)
        expected = (a.float().double() @ b.float().double()) * (
            rows.double().reshape(-1, 1) * columns.double().reshape(1, -1)
        )
        assert error(y, expected) < 1e-3
    y = dlblas.scaled_mm(a, b, 0.5, 2.0, granularity="tensor", out_dtype=torch.float32)
    assert error(y, a.float().double() @ b.float().double()) < 1e-3


@pytest.mark.parametrize("granularity", ["token", "group128"])
def test_scales_of_zero_infinity_and_nan(granularity, device) -> None:
    a, b, a_scale, b_scale, _ = quantized(6, 256, 130, granularity, device)
    plain = dlblas.scaled_mm(
        a, b, a_scale, b_scale, granularity=granularity, out_dtype=torch.float32
    )
    a_scale = a_scale.clone()
    a_scale[1, 0], a_scale[2, 0], a_scale[4, 0] = 0, torch.inf, torch.nan
    y = dlblas.scaled_mm(a, b, a_scale, b_scale, granularity=granularity, out_dtype=torch.float32)
    assert torch.equal(y[[0, 3, 5]], plain[[0, 3, 5]]), "other rows stay as they are"
    assert y[4].isnan().all()
    assert (y[2].isinf() | y[2].isnan()).all() and y[2].isinf().any()
    assert (y[1] == 0).all() if granularity == "token" else y[1].isfinite().all()
    zeros = torch.zeros_like(a)
    y = dlblas.scaled_mm(zeros, b, a_scale, b_scale, granularity=granularity)
    assert y[[2, 4]].isnan().all() and (y[[0, 1, 3, 5]] == 0).all()


def test_scales_of_blocks_may_lie_by_columns(device) -> None:
    a, b, a_scale, b_scale, _ = quantized(9, 300, 200, "group128", device)
    expected = dlblas.scaled_mm(a, b, a_scale, b_scale, granularity="group128")
    turned = a_scale.T.contiguous().T
    assert turned.stride() != a_scale.stride()
    for rows, blocks in ((turned, b_scale), (a_scale, b_scale.contiguous())):
        got = dlblas.scaled_mm(a, b, rows, blocks, granularity="group128")
        assert torch.equal(got, expected)


def _on_cublaslt(m, k, n, **call) -> str:
    """Why cuBLASLt would not serve a call with scales of blocks on an H200; "" if it would."""
    a, b, a_scale, b_scale, _ = quantized(m, k, n, "group128", "cpu")
    told = dlblas.explain(
        "scaled_mm_block", a=a, b=b, a_scale=a_scale, b_scale=b_scale, **call, device="sm_90a"
    )
    rows = {row["implementation"]: row for row in told.as_dict()["candidates"]}
    if "was not found" in rows["cublaslt"]["reason"]:
        pytest.skip("cuBLASLt is not installed")
    assert rows["cuda_wgmma"]["chosen"], "unmeasured, our own form serves"
    return str(rows["cublaslt"]["reason"])


def test_cublaslt_says_which_scales_of_blocks_it_takes() -> None:
    assert _on_cublaslt(64, 512, 256) == ""
    assert _on_cublaslt(61, 640, 144, out_dtype="f16") == ""  # a bucket of 64 rows
    assert _on_cublaslt(2, 512, 256) == "M = 2: cuBLASLt's block scales need a multiple of 4"
    assert _on_cublaslt(64, 400, 256) == "K = 400 is not a multiple of 128"
    reason = _on_cublaslt(64, 512, 256, bias=drawn((256,), "cpu"))
    assert reason == "cuBLASLt rounds the product before it adds the bias"


def test_the_first_choice_leaves_l1_to_the_scales_of_blocks() -> None:
    def chosen(m: int, k: int, n: int) -> str:
        groups, blocks = k // 128, -(-n // 128)
        told = dlblas.explain(
            "scaled_mm_block",
            a=dlblas.Spec((m, k), "f8e4m3", device="sm_90a"),
            b=dlblas.Spec((k, n), "f8e4m3", strides=(1, k), device="sm_90a"),
            a_scale=dlblas.Spec((m, groups), "f32", device="sm_90a"),
            b_scale=dlblas.Spec((groups, blocks), "f32", strides=(1, groups), device="sm_90a"),
        )
        return str(told.as_dict()["config"])

    for shape in ((4096, 4096, 4096), (8192, 8192, 8192), (4096, 1536, 24576)):
        assert "block_m=128 block_n=128" in chosen(*shape), shape
        assert "stages=5" in chosen(*shape), shape  # six leave L1 less
    assert "block_n=192" in chosen(4096, 7168, 2112)  # eleven columns of tiles


@pytest.mark.gpu
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("m", [4, 61, 64, 1000, 1001])
@pytest.mark.parametrize("k", [128, 640, 2048])
def test_cublaslt_reads_scales_of_blocks_in_any_layout(m, k, by_columns) -> None:
    """Rows that are no multiple of 4, and numbers of groups that are none, are padded."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("cuBLASLt has these scales for Hopper only")
    a, b, a_scale, b_scale, exact = quantized(m, k, 272, "group128", "cuda")
    if by_columns:
        a_scale = a_scale.T.contiguous().T
    else:
        b_scale = b_scale.contiguous()
    with dlblas.pinned("scaled_mm_block", "cublaslt"):
        y = dlblas.scaled_mm(a, b, a_scale, b_scale, granularity="group128")
    assert y.dtype == torch.bfloat16 and error(y, exact) <= 2e-3


def test_cublaslt_is_offered_a_scale_per_row_and_column() -> None:
    """Rows of a [M, 1] scale are 4 bytes apart, whatever the first one's alignment is."""
    a, b, a_scale, b_scale, _ = quantized(64, 512, 256, "token", "cpu")
    told = dlblas.explain(
        "scaled_mm_channel", a, b, a_scale, b_scale.flatten(), device="sm_90a"
    ).as_dict()
    rows = {row["implementation"]: row for row in told["candidates"]}
    if "was not found" in rows["cublaslt"]["reason"]:
        pytest.skip("cuBLASLt is not installed")
    assert rows["cublaslt"]["reason"] == ""


@pytest.mark.gpu
@pytest.mark.parametrize("shift", [0, 1, 3])
@pytest.mark.parametrize("m", [1, 2, 61, 1000])
def test_cublaslt_multiplies_by_a_scale_per_row_and_column(m, shift) -> None:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("cuBLASLt has these scales from Hopper on")
    a, b, a_scale, b_scale, exact = quantized(m, 512, 272, "token", "cuda")
    room = torch.full((m + 8, 1), float("nan"), device="cuda")
    room[shift : shift + m] = a_scale
    with dlblas.pinned("scaled_mm_channel", "cublaslt"):
        y = dlblas.scaled_mm(a, b, room[shift : shift + m], b_scale, granularity="token")
    assert error(y, exact) <= 2e-3


def test_no_terms_are_the_bias(device) -> None:
    a, b = (torch.zeros(s, device=device).to(F8) for s in ((3, 0), (0, 5)))
    one, bias = torch.ones(1, device=device), drawn((5,), device)
    y = dlblas.scaled_mm(a, b, one, one, granularity="tensor", bias=bias, out_dtype=torch.float32)
    assert torch.equal(y, bias.expand(3, 5))


def test_kernels_fp8_gemm_takes_leading_dimensions_and_the_default_dtype(device) -> None:
    from dlblas.kernels.fp8_gemm import fp8_gemm

    a, b, a_scale, b_scale, exact = quantized(12, 300, 200, "group128", device)
    y = fp8_gemm(a.view(3, 4, 300), b.T, a_scale.view(3, 4, 3), b_scale.T)
    assert y.shape == (3, 4, 200) and y.dtype == torch.float32
    assert error(y.view(12, 200), exact) < 5e-4
    for dtype, bar in ((torch.bfloat16, 2e-3), (torch.float64, 5e-4)):
        torch.set_default_dtype(dtype)
        try:
            y = fp8_gemm(a, b.T, a_scale, b_scale.T)
        finally:
            torch.set_default_dtype(torch.float32)
        assert y.dtype == dtype and error(y, exact) < bar
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        fp8_gemm(a, b.T, a_scale[:, :2], b_scale.T)


def test_fp8_gemm_quantises_floats_and_wants_the_scale_of_codes(device) -> None:
    from dlblas.triton_ops.kernels import fp8_gemm_reference, quantize_fp8

    x, w = drawn((33, 300), device), drawn((300, 40), device)
    y = dlblas.fp8_gemm(x, w)
    assert y.dtype == torch.float16 and y.shape == (33, 40)
    assert error(y, x.double() @ w.double()) <= 4.5e-2
    (a, a_scale), (b, b_scale) = quantize_fp8(x), quantize_fp8(w)
    expected = fp8_gemm_reference(a, b, a_scale, b_scale, torch.float32)
    for left, scale in ((a, a_scale), (a.view(torch.uint8), a_scale), (a, float(a_scale))):
        got = dlblas.fp8_gemm(left, b, scale, b_scale, torch.float32)
        assert error(got, expected.double()) < 5e-4
    mixed = dlblas.fp8_gemm(x, b, b_scale=b_scale, output_dtype=torch.float32)
    assert error(mixed, expected.double()) < 2e-2
    given = dlblas.fp8_gemm(x, w, a_scale, b_scale, torch.float32)
    assert error(given, expected.double()) < 2e-2
    for missing in ({"b_scale": b_scale}, {"a_scale": a_scale}):
        with pytest.raises(dlblas.errors.ArgumentError, match="_scale is missing"):
            dlblas.fp8_gemm(a, b, **missing)
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        dlblas.fp8_gemm(a, b, torch.ones(2, device=device), b_scale)
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        dlblas.fp8_gemm(a, b.T, a_scale, b_scale)


def test_bmm_fp8_is_a_product_of_each_matrix(device) -> None:
    x, w = drawn((3, 20, 144), device), drawn((3, 48, 144), device)
    (a, a_scale), (b, b_scale) = dlblas.quantize(x, "tensor"), dlblas.quantize(w, "tensor")
    y = dlblas.bmm_fp8(a, b.transpose(1, 2), a_scale, b_scale, torch.float16)
    exact = torch.bmm(a.float().double(), b.float().double().transpose(1, 2))
    exact = exact * a_scale.double() * b_scale.double()
    assert y.dtype == torch.float16 and error(y, exact) < 1e-3
    out = torch.empty(3, 20, 48, device=device, dtype=torch.bfloat16)
    assert dlblas.bmm_fp8(a, b.transpose(1, 2), a_scale, b_scale, out=out) is out
    assert error(out, exact) < 3e-3
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        dlblas.bmm_fp8(a[:2], b.transpose(1, 2), a_scale, b_scale)


def test_what_does_not_fit_is_a_typed_error(device) -> None:
    a, b, a_scale, b_scale, _ = quantized(6, 256, 130, "token", device)
    with pytest.raises(dlblas.errors.ArgumentError, match="expected tensor, token or group128"):
        dlblas.scaled_mm(a, b, a_scale, b_scale, granularity="row")
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        dlblas.scaled_mm(a, b, a_scale, b_scale, granularity="tensor")
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        dlblas.scaled_mm(a, b, a_scale[:3], b_scale, granularity="token")
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        dlblas.scaled_mm(a, b, a_scale, b_scale, granularity="group128")
    with pytest.raises(dlblas.errors.UnsupportedDtypeError):
        dlblas.scaled_mm(a, b.to(torch.float8_e5m2), a_scale, b_scale, granularity="token")
    with pytest.raises(dlblas.errors.UnsupportedDtypeError):
        dlblas.scaled_mm(a, b, a_scale.double(), b_scale, granularity="token")


def test_numpy_arrays() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((5, 200), (200, 7)))
    y = dlblas.scaled_mm(a, b, 0.5, np.float32(2), granularity="tensor", out_dtype="f32")
    np.testing.assert_array_equal(y, a.astype(np.float64) @ b.astype(np.float64))
    x, w = (rng.standard_normal(s).astype("f") for s in ((50, 200), (200, 70)))
    y = dlblas.fp8_gemm(x, w, output_dtype="f32")
    exact = x.astype(np.float64) @ w.astype(np.float64)
    assert np.linalg.norm(y - exact) <= 4.5e-2 * np.linalg.norm(exact)


def test_torch_compile_follows_the_faces(device) -> None:
    a, b, a_scale, b_scale, _ = quantized(6, 256, 130, "group128", device)

    def f(x, s):
        return dlblas.scaled_mm(x, b, s, b_scale, granularity="group128")

    got = torch.compile(f, backend="eager", fullgraph=True)(a, a_scale)
    assert torch.equal(got, f(a, a_scale))


# ---- FP8Linear -----------------------------------------------------------------------------------


@pytest.fixture(name="linear")
def _linear(device):
    torch.manual_seed(2)
    return torch.nn.Linear(136, 72, device=device)


def test_fp8_linear_is_a_linear_layer(linear, device) -> None:
    layer = dlblas.nn.FP8Linear.from_linear(linear)
    assert layer.weight.dtype == F8 and layer.weight.shape == (72, 136)
    assert layer.weight_scale.dtype == torch.float32 and layer.weight_scale.dim() == 0
    for shape in ((5, 136), (2, 3, 136), (136,)):
        x = drawn(shape, device)
        with torch.no_grad():
            y, expected = layer(x), linear(x)
        assert y.shape == expected.shape and y.dtype == x.dtype
        assert error(y, expected.double()) <= 4.5e-2
    half = layer(drawn((5, 136), device).bfloat16())
    assert half.dtype == torch.bfloat16


def test_fp8_linear_keeps_nothing_but_codes_and_their_scale(linear, device) -> None:
    layer = dlblas.nn.FP8Linear(136, 72, device=device)
    state = layer.state_dict()
    assert list(state) == ["weight", "weight_scale"] and list(layer.parameters()) == []
    held = sum(t.numel() * t.element_size() for t in state.values())
    assert held == 136 * 72 + 4
    before = layer.weight.clone()
    layer.quantize_weights()
    assert torch.equal(layer.weight.view(torch.uint8), before.view(torch.uint8))
    layer.quantize_weights(linear.weight)
    assert not torch.equal(layer.weight.view(torch.uint8), before.view(torch.uint8))
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        layer.quantize_weights(linear.weight.T)


def test_fp8_linear_state_dict_goes_round(linear, device) -> None:
    layer = dlblas.nn.FP8Linear.from_linear(linear)
    other = dlblas.nn.FP8Linear(136, 72, bias=True, device=device)
    assert not other.load_state_dict(layer.state_dict()).missing_keys
    x = drawn((5, 136), device)
    assert torch.equal(other(x), layer(x))
    wrapped = torch.nn.Sequential(dlblas.nn.FP8Linear(136, 72, bias=True, device=device))
    wrapped.load_state_dict({f"0.{name}": t for name, t in linear.state_dict().items()})
    assert torch.equal(wrapped(x), layer(x)), "a float weight is quantised when it is loaded"


@pytest.mark.parametrize("activation", ["", "relu", "leaky_relu", "gelu", "silu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_fp8_linear_passes_gradients_and_keeps_the_activation(activation, dtype, device) -> None:
    """Gradients are those of the product with the decoded weight: x's rounding contributes none."""
    linear = dlblas.nn.Linear(136, 72, activation=activation, device=device)
    layer = dlblas.nn.FP8Linear.from_linear(linear)
    assert ("activation" in repr(layer)) == bool(activation)
    x = drawn((2, 3, 136), device).to(dtype).requires_grad_()
    wide = [t.detach().double().requires_grad_() for t in (x, layer.bias)]
    weight = layer.weight.double() / layer.weight_scale
    y, sums = layer(x), torch.nn.functional.linear(wide[0], weight, wide[1])
    plain = dlblas.nn.FP8Linear.from_linear(torch.nn.Linear(136, 72, device=device))
    plain.load_state_dict(layer.state_dict())
    with torch.no_grad():  # slopes are those of the layer's own sums
        off = plain(x.float()) - sums
    sums = sums + off
    expected = getattr(torch.nn.functional, activation)(sums) if activation else sums
    assert y.dtype is dtype and error(y.detach(), expected.detach()) <= 4.5e-2
    arrives = torch.randn_like(y)
    got = torch.autograd.grad(y, (x, layer.bias), arrives)
    wanted = torch.autograd.grad(expected, wide, arrives.double())
    bar = 1e-5 if dtype is torch.float32 else 5e-3
    for mine, its, like in zip(got, wanted, (x, layer.bias), strict=True):
        assert mine.dtype is like.dtype and error(mine, its) <= bar
    with torch.no_grad():
        assert torch.equal(layer(x), y)
    torch.compiler.reset()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    again = torch.autograd.grad(compiled(x), (x, layer.bias), arrives)
    assert all(torch.equal(a, b) for a, b in zip(got, again, strict=True))


def test_fp8_linear_wants_an_activation_that_there_is() -> None:
    with pytest.raises(errors.ArgumentError, match="FP8Linear: activation is not offered"):
        dlblas.nn.FP8Linear(8, 4, activation="tanh")


def test_fp8_linear_stays_f8_where_a_module_changes_dtype(linear, device) -> None:
    layer = dlblas.nn.FP8Linear.from_linear(linear)
    codes, x = layer.weight.clone(), drawn((5, 136), device).half()
    expected = layer(x)
    layer.half().to(torch.bfloat16).half()
    assert layer.weight.dtype == F8 and layer.weight_scale.dtype == torch.float32
    assert layer.bias is not None and layer.bias.dtype == torch.float16
    assert torch.equal(layer.weight.view(torch.uint8), codes.view(torch.uint8))
    assert error(layer(x).detach(), expected.detach().double()) < 5e-3


def codes(*shape, dtype=F8):
    return torch.zeros(shape).to(dtype)


@pytest.mark.parametrize("lead", [(0,), (2, 0), (0, 3)], ids=str)
def test_no_matrices_are_no_result(lead) -> None:
    y = dlblas.bmm_fp8(codes(*lead, 3, 4), codes(*lead, 4, 5), 1.0, 1.0)
    assert y.shape == (*lead, 3, 5) and y.dtype == torch.bfloat16
    out = torch.empty(*lead, 3, 5, dtype=torch.float16)
    assert dlblas.bmm_fp8(codes(*lead, 3, 4), codes(*lead, 4, 5), 1.0, 1.0, out=out) is out
    with pytest.raises(
        errors.ShapeMismatchError, match="bmm_fp8: b has size 5 in dimension 1; expected K = 4"
    ):
        dlblas.bmm_fp8(codes(*lead, 3, 4), codes(*lead, 5, 5), 1.0, 1.0)
    with pytest.raises(errors.ShapeMismatchError, match="out has another shape"):
        dlblas.bmm_fp8(codes(*lead, 3, 4), codes(*lead, 4, 5), 1.0, 1.0, out=out[..., :2])
    for dtype in (torch.float32, torch.float8_e5m2):
        for left, right, name in ((dtype, F8, "a"), (F8, dtype, "b")):
            given = codes(*lead, 3, 4, dtype=left), codes(*lead, 4, 5, dtype=right)
            with pytest.raises(errors.UnsupportedDtypeError, match=f"bmm_fp8: {name} .* f8e4m3"):
                dlblas.bmm_fp8(*given, 1.0, 1.0)
    given = codes(*lead, 3, 4), codes(*lead, 4, 5)
    with pytest.raises(errors.ArgumentError, match="out_dtype"):
        dlblas.bmm_fp8(*given, 1.0, 1.0, out=out.double())
    with pytest.raises(errors.UnsupportedDtypeError, match="a_scale has dtype f16"):
        dlblas.bmm_fp8(*given, torch.ones(1).half(), 1.0)


@pytest.mark.parametrize("lead", [(3,), (2, 3), (0,), ()], ids=str)
def test_kernels_fp8_gemm_of_no_terms(lead) -> None:
    call = dlblas.kernels.fp8_gemm.fp8_gemm
    y = call(codes(*lead, 0), codes(5, 0), torch.zeros(*lead, 0), torch.zeros(1, 0))
    assert y.shape == (*lead, 5) and not y.any()


@pytest.mark.parametrize("bad", [None, "1", [1.0], object()], ids=lambda bad: type(bad).__name__)
def test_what_is_no_scale(bad) -> None:
    a, b, i8 = codes(3, 4), codes(4, 5), torch.int8
    calls = {
        "a_scale": lambda: dlblas.scaled_mm(a, b, bad, 1.0, granularity="tensor"),
        "b_scale": lambda: dlblas.scaled_mm(a, b, 1.0, bad, granularity="token"),
        "bmm_fp8: b_scale": lambda: dlblas.bmm_fp8(codes(2, 3, 4), codes(2, 4, 5), 1.0, bad),
        "scales_a": lambda: dlblas.int8_scaled_mm(a.to(i8), b.to(i8), bad, 1.0),
        "fp8_gemm: a_scale": lambda: dlblas.fp8_gemm(a, b, bad, 1.0),
    }
    for words, call in calls.items():
        with pytest.raises(errors.Error, match=words):
            call()
    with pytest.raises(errors.Error, match="scale"):
        dlblas.scaled_mm(a, b, bad, b, granularity="group128")


@pytest.mark.parametrize("bad", [0, 0.0, -1.0, float("nan"), float("inf")])
def test_a_number_that_is_no_scale(bad) -> None:
    for given in ({"a_scale": bad, "b_scale": 1.0}, {"a_scale": 1.0, "b_scale": bad}):
        with pytest.raises(errors.ArgumentError, match=r"is no scale; expected a number above 0"):
            dlblas.fp8_gemm(torch.ones(3, 4), torch.ones(4, 5), **given)


def test_codes_of_the_other_kind() -> None:
    i8 = torch.int8
    with pytest.raises(errors.UnsupportedDtypeError, match=r"int8_scaled_mm: b has .* i8, got fl"):
        dlblas.int8_scaled_mm(codes(3, 4, dtype=i8), codes(4, 5), torch.ones(3), torch.ones(5))
    with pytest.raises(errors.UnsupportedDtypeError, match=r"bmm_fp8: a has .* f8e4m3, got int8"):
        dlblas.bmm_fp8(codes(2, 3, 4, dtype=i8), codes(2, 4, 5, dtype=i8), 1.0, 1.0)


def test_an_out_of_bmm_fp8_that_meets_an_input() -> None:
    memory = torch.zeros(4, 8, 8, dtype=torch.bfloat16)
    a = torch.as_strided(memory.view(torch.uint8), (3, 8, 8), (128, 8, 1)).view(F8)
    a.copy_(torch.randn(3, 8, 8).to(F8))
    before, b = memory.view(torch.uint8).clone(), torch.randn(3, 8, 8).to(F8)
    for left, right, name in ((a, b, "a"), (b, a, "b")):
        with pytest.raises(errors.ArgumentError, match=f"bmm_fp8: out overlaps {name}"):
            dlblas.bmm_fp8(left, right, 1.0, 1.0, out=memory[1:])
    assert torch.equal(memory.view(torch.uint8), before)
    wanted = dlblas.bmm_fp8(a[:1], b[:1], 1.0, 1.0)
    assert torch.equal(dlblas.bmm_fp8(a[:1], b[:1], 1.0, 1.0, out=memory[2:3]), wanted)


def test_bytes_of_numpy_are_codes_as_those_of_torch() -> None:
    (a, a_scale), (b, b_scale) = (
        dlblas.triton_ops.quantize_fp8(drawn(shape, "cpu")) for shape in ((5, 64), (64, 7))
    )
    wanted = dlblas.fp8_gemm(a, b, a_scale, b_scale, torch.float32).numpy()
    bytes_of = [t.view(torch.uint8).numpy() for t in (a, b)]
    got = dlblas.fp8_gemm(*bytes_of, float(a_scale), float(b_scale), "f32")
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    with pytest.raises(errors.ArgumentError, match="b_scale is missing; expected the scale that"):
        dlblas.fp8_gemm(*bytes_of, float(a_scale))


def test_none_is_no_matrix() -> None:
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    call = dlblas.kernels.fp8_gemm.fp8_gemm
    with pytest.raises(errors.ArgumentTypeError, match="fp8_gemm: b_s is no array"):
        call(codes(3, 128), codes(5, 128), torch.ones(3, 1), None)
    for left, right, name in ((None, b, "a"), (a, None, "b")):
        for refused in (
            lambda left, right: dlblas.scaled_mm(left, right, 1.0, 1.0, granularity="tensor"),
            lambda left, right: dlblas.bmm_fp8(left, right, 1.0, 1.0),
            lambda left, right: dlblas.int8_scaled_mm(left, right, 1.0, 1.0),
            dlblas.fp8_gemm,
            lambda left, right: dlblas.grouped_gemm(left, right, torch.zeros(2).int()),
        ):
            with pytest.raises(errors.ArgumentTypeError, match=f": {name} is no array; expected"):
                refused(left, right)


@pytest.mark.parametrize("granularity", ["tensor", "token", "group128"])
@pytest.mark.parametrize("lead", [(3, 4), (0, 4), (2, 3, 4)], ids=str)
def test_leading_dimensions_may_lie_in_any_way(lead, granularity, device) -> None:
    x, w = torch.randn(*lead, 256, device=device), torch.randn(40, 256, device=device)
    a, a_scale = dlblas.quantize(x, granularity, F8)
    b, b_scale = dlblas.quantize(w, "block128" if granularity == "group128" else granularity, F8)
    b_scale = b_scale.T if granularity == "group128" else b_scale
    wanted = dlblas.scaled_mm(a, b.T, a_scale, b_scale, granularity=granularity)
    of = a_scale if granularity == "tensor" else a_scale.transpose(-2, -3)
    got = dlblas.scaled_mm(a.transpose(-2, -3), b.T, of, b_scale, granularity=granularity)
    assert torch.equal(got, wanted.transpose(-2, -3))
    turned = dlblas.fp8_gemm(x.transpose(-2, -3), w.T)
    assert torch.equal(turned, dlblas.fp8_gemm(x, w.T).transpose(-2, -3))
