"""dlblas.x() on torch tensors: how a call is read, its errors, what autograd and autocast see of
it, streams, and foreign arrays on a GPU.

The same file runs on a GPU with -m gpu. Read next: bindings/python/torch.cpp, docs/torch.md,
test_torch_compile.py.
"""

from __future__ import annotations

import dlblas
import numpy as np
import pytest
from dlblas import errors

torch = pytest.importorskip("torch")

DEVICES = [pytest.param("cpu", id="cpu"), pytest.param("cuda", id="cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def xw(request):
    torch.manual_seed(3)
    return torch.randn(6, 48, device=request.param), torch.randn(48, device=request.param)


def launched(call):
    """The number of the library's operator calls that one call makes."""
    before = dlblas.counters()["calls"]
    call()
    return dlblas.counters()["calls"] - before


def test_calls_by_position_and_by_name_agree(xw):
    x, w = xw
    expected = torch.nn.functional.rms_norm(x, (48,), w, 1e-3)
    for y in (
        dlblas.rms_norm(x, w, 1e-3),
        dlblas.rms_norm(x, weight=w, eps=1e-3),
        dlblas.rms_norm(eps=1e-3, weight=w, x=x),
        dlblas.rms_norm(x, w, eps=np.float32(1e-3)),  # not torch's kind of number: the slow way
        torch.ops.dlblas.rms_norm(x, w, 1e-3),
    ):
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    offset = dlblas.rms_norm(x, w, weight_offset=1.0)  # past eps, whose default is filled in
    torch.testing.assert_close(offset, dlblas.rms_norm(x, w + 1), rtol=1e-4, atol=1e-4)
    assert launched(lambda: dlblas.rms_norm(x, w)) == 1


class Number(float):
    """A float subclass, as configurations have."""


def test_numbers_that_torch_does_not_read_keep_the_gradient(xw):
    x, w = (tensor.requires_grad_() for tensor in xw)
    expected = torch.autograd.grad(dlblas.rms_norm(x, w, 0.5).sum(), (x, w))
    for eps in (np.float32(0.5), np.float64(0.5), Number(0.5), torch.tensor(0.5), np.array(0.5)):
        for y in (dlblas.rms_norm(x, w, eps), dlblas.rms_norm(weight=w, eps=eps, x=x)):
            assert all(map(torch.equal, torch.autograd.grad(y.sum(), (x, w)), expected))
        y, _ = dlblas.add_rms_norm(x, w, x, eps, cast_before_weight=np.bool_(True))
        assert y.grad_fn is not None
    for cast in (1, np.bool_(True), True):
        assert dlblas.rms_norm(x, w, cast_before_weight=cast).grad_fn is not None
    assert dlblas.nn.RMSNorm(48, np.float64(0.5), device=x.device)(x).grad_fn is not None
    heads = torch.randn(1, 3, 2, 32, device=x.device, requires_grad=True)
    assert dlblas.flash_attention(heads, heads, heads, scale=np.float32(1)).grad_fn is not None


def test_what_is_wrong_is_said_where_autograd_follows(xw):
    """The message names the mistake, not that a tensor requires grad, which is allowed."""
    x, w = (tensor.requires_grad_() for tensor in xw)
    for call, words in (
        (lambda: dlblas.rms_norm(x, w, epss=1), "epss is not an argument; .* did you mean eps"),
        (lambda: dlblas.rms_norm(x, w, "a"), "eps has a wrong value; expected a number"),
        (
            lambda: dlblas.rms_norm(x, w, np.array([1.0, 2.0])),
            "eps has the wrong type",
        ),
        (lambda: dlblas.rms_norm(x, w, x=x), "x is given twice"),
        (lambda: dlblas.softmax(x, np.float32(1)), "dim is of another type; expected an integer"),
        (lambda: dlblas.softmax(x, -1, 1), "too many positional arguments"),
        (lambda: dlblas.matmul(x, x.t(), "rely"), "activation has a wrong .* did you mean relu"),
        (lambda: dlblas.nn.GatedMLP(8, 4, "sulu").to(x.device)(x[:, :8]), "did you mean silu"),
        (lambda: dlblas.rms_norm(x, w, out=x), "x requires grad"),
        (lambda: dlblas.quantize_token(x), "x requires grad"),
    ):
        before = x.detach().clone()
        with pytest.raises(errors.ArgumentError, match=words):
            call()
        assert torch.equal(x, before)
    if x.is_cuda:  # a tensor of NumPy's is elsewhere, and that is said first
        with pytest.raises(errors.DeviceError, match="weight is on cpu"):
            dlblas.rms_norm(x, np.ones(48, "f"))
    else:
        with pytest.raises(errors.ArgumentError, match="x requires grad"):
            dlblas.rms_norm(x, np.ones(48, "f"))


def test_a_call_goes_to_torch_and_not_through_dlpack(xw):
    x, w = xw
    with torch.profiler.profile() as profile:
        dlblas.rms_norm(x, w)
    assert any("dlblas::_rms_norm" in event.name for event in profile.events())


def test_tensors_whose_storage_was_freed(xw):
    """FSDP frees storage between uses. Such a tensor as a destination once ended the process."""
    x, w = xw
    freed = torch.empty_like(x)
    freed.untyped_storage().resize_(0)
    for name, call in (
        ("x", lambda: dlblas.rms_norm(freed, w)),
        ("out", lambda: dlblas.rms_norm(x, w, out=freed)),
    ):
        with pytest.raises(errors.ArgumentError, match=f"rms_norm: {name} has no memory"):
            call()
    with pytest.raises(RuntimeError, match="has no memory"):
        torch.ops.dlblas.rms_norm_out(x, w, freed)


def test_out_and_in_place(xw):
    x, w = xw
    y = torch.empty_like(x)
    assert dlblas.rms_norm(x, w, out=y) is y
    assert torch.equal(y, dlblas.rms_norm(x, w))
    assert dlblas.rms_norm(x, w, out=None).shape == x.shape
    pair = (torch.empty_like(x), torch.empty_like(x))
    assert dlblas.add_rms_norm(x, w, x, out=pair) is pair
    mine, residual = x.clone(), x.clone()
    assert dlblas.add_rms_norm_(mine, residual, w) is None
    assert torch.equal(mine, pair[0]) and torch.equal(residual, pair[1])


def test_parameters_strides_and_empty_tensors(xw):
    x, w = xw
    weight = torch.nn.Parameter(w, requires_grad=False)
    wide = torch.randn(6, 96, device=x.device)
    half = wide[:, :48]
    assert torch.equal(dlblas.rms_norm(half, weight), dlblas.rms_norm(half.contiguous(), w))
    empty = x[:0]
    assert dlblas.rms_norm(empty, w).shape == (0, 48)
    assert dlblas.rms_norm(empty, w, out=torch.empty_like(empty)).shape == (0, 48)
    assert dlblas.rms_norm(x.reshape(2, 1, 3, 48), w).shape == (2, 1, 3, 48)


def test_enumerations_and_dtypes():
    a, b = torch.randn(4, 8), torch.randn(8, 3)
    expected = torch.nn.functional.gelu(a @ b, approximate="none")
    for y in (
        dlblas.matmul(a, b, "gelu"),
        torch.ops.dlblas.matmul(a, b, "gelu"),
        torch.ops.dlblas.matmul(a, b, activation="gelu"),
    ):
        torch.testing.assert_close(y, expected, rtol=1e-2, atol=1e-2)
    for dtype in (torch.bfloat16, "bf16", "bfloat16"):
        assert dlblas.matmul(a, b, out_dtype=dtype).dtype == torch.bfloat16
    with pytest.raises(errors.ArgumentError, match="activation has a wrong value"):
        dlblas.matmul(a, b, "nonsense")
    with pytest.raises(RuntimeError, match="activation has a wrong value"):
        torch.ops.dlblas.matmul(a, b, "nonsense")
    with pytest.raises(RuntimeError, match="out_dtype has a wrong value"):
        torch.ops.dlblas.matmul(a, b, out_dtype=torch.complex64)


def test_deterministic_reaches_the_kernel():
    x, w = torch.randn(5, 83), torch.randn(83, 91)  # sizes of no other test in this process
    before = dlblas.counters()["selected"]
    dlblas.matmul(x, w)
    plain = dlblas.counters()["selected"]
    with dlblas.deterministic():
        dlblas.matmul(x, w)  # another Problem: its flag is part of the key
    assert dlblas.counters()["selected"] == plain + 1 > before


def test_torchs_deterministic_setting_is_that_of_a_call():
    x = torch.randn(64, 64)
    with dlblas.repeatable():
        dlblas.matmul(x, x)
        row = dlblas.explain("matmul", x, x).as_dict()
    assert row["problem"].endswith("; repeatable")
    dlblas.matmul(x, x)
    assert row != dlblas.explain("matmul", x, x).as_dict()
    selected = dlblas.counters()["selected"]
    torch.use_deterministic_algorithms(True)
    try:
        for call in (dlblas.matmul, torch.ops.dlblas.matmul):
            call(x, x)
        assert row == dlblas.explain("matmul", x, x).as_dict()
    finally:
        torch.use_deterministic_algorithms(False)
    assert dlblas.counters()["selected"] == selected  # the plan of dlblas.repeatable(), known


def test_info_names_this_torch():
    row = next(row for row in dlblas.info()["libraries"] if row["name"] == "torch")
    assert row["found"] and row["why_not"] == ""
    assert row["version"] and torch.__version__.startswith(row["version"])
    assert row["path"].endswith("libtorch_cpu.so")


# ---- errors -------------------------------------------------------------------------------------


def test_errors_are_typed_and_torch_gets_the_same_text(xw):
    x, w = xw
    with pytest.raises(errors.ShapeMismatchError) as ours:
        dlblas.rms_norm(x, w[:3])
    with pytest.raises(RuntimeError) as torchs:
        torch.ops.dlblas.rms_norm(x, w[:3])
    text = "rms_norm: weight has length 3; expected C = 48 from x [T=6, C=48], got 3"
    assert str(ours.value) == str(torchs.value) == text
    assert (ours.value.op, ours.value.argument, ours.value.got) == ("rms_norm", "weight", "3")
    assert not isinstance(torchs.value, errors.Error)


W48 = torch.ones(48)
REFUSED = {
    "sparse": (
        lambda: torch.eye(48).to_sparse(),
        errors.ArgumentError,
        r"got sparse_coo",
    ),
    "csr": (
        lambda: torch.eye(48).to_sparse_csr(),
        errors.ArgumentError,
        r"got sparse_csr",
    ),
    "mkldnn": (lambda: torch.eye(48).to_mkldnn(), errors.ArgumentError, r"x is not a dense"),
    "nested": (
        lambda: torch.nested.nested_tensor([torch.eye(48)]),
        errors.ArgumentError,
        "x is a nested tensor",
    ),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.eye(48), 0.1, 0, torch.qint8),
        errors.UnsupportedDtypeError,
        r"x is a quantized tensor.*qint8.*dequantize",
    ),
    "complex": (
        lambda: torch.eye(48, dtype=torch.complex64),
        errors.UnsupportedDtypeError,
        "x has a dtype",
    ),
    "another device": (
        lambda: torch.eye(48, device="meta"),
        errors.DeviceError,
        "weight is on another device; expected meta, got cpu",
    ),
    "rank": (lambda: torch.ones(*[1] * 9, 48), errors.ShapeMismatchError, "x has 10 dimensions"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REFUSED)
def test_tensors_that_no_kernel_takes(case):
    make, kind, words = REFUSED[case]
    x = make()
    for _ in range(2):  # the process survives it, and says it again
        with pytest.raises(kind, match=words):
            dlblas.rms_norm(x, W48)
    with pytest.raises((RuntimeError, errors.Error)):
        torch.ops.dlblas.rms_norm(x, W48)
    torch.testing.assert_close(dlblas.rms_norm(W48, W48), W48)


def test_unusual_calls_keep_the_words_of_the_library(xw):
    x, w = xw
    for call, kind, words in (
        (lambda: dlblas.rms_norm(weight=w), errors.ArgumentError, "x is missing"),
        (lambda: dlblas.rms_norm(x, w, 1e-6, 2.0), errors.ArgumentError, "too many positional"),
        (lambda: dlblas.rms_norm(x, w, nonsense=1), errors.ArgumentError, "nonsense is not"),
        (lambda: dlblas.rms_norm(x, w, x=x), errors.ArgumentError, "x is given twice"),
        (lambda: dlblas.rms_norm(x, w, "a"), errors.ArgumentError, "eps has a wrong value"),
        (lambda: dlblas.rms_norm(x, w, out=(x, x)), errors.ArgumentError, "out has the wrong"),
        (lambda: dlblas.rms_norm(x, w, out=x[:, :3]), errors.ShapeMismatchError, "out has|y has"),
        (lambda: dlblas.rms_norm(x, w, stream=7), errors.ArgumentError, "torch's current stream"),
        (lambda: dlblas.rms_norm(x, [1.0]), errors.ArgumentError, "weight is not an array"),
    ):
        with pytest.raises(kind, match=words):
            call()


def test_numpy_and_torch_in_one_call():
    x, w = torch.randn(4, 24), np.ones(24, np.float32)
    assert isinstance(dlblas.rms_norm(x, w), torch.Tensor)
    assert isinstance(dlblas.rms_norm(x.numpy(), torch.ones(24)), np.ndarray)


# ---- autograd -----------------------------------------------------------------------------------


def test_operators_without_a_gradient_refuse(xw):
    x, _ = xw
    square = torch.randn(48, 48, device=x.device, requires_grad=True)
    refused = pytest.raises(errors.ArgumentError, match=r"x requires grad.*detach\(\)")
    scale = torch.ones(48, 1, device=x.device)
    with refused:
        dlblas.scale_rows(square, scale)
    with torch.no_grad():
        assert not dlblas.scale_rows(square, scale).requires_grad
    assert not dlblas.scale_rows(square.detach(), scale).requires_grad


def test_writing_forms_refuse_what_requires_grad(xw):
    x, w = xw
    leaf = x.clone().requires_grad_()
    for call in (
        lambda: dlblas.rms_norm(leaf, w, out=torch.empty_like(x)),
        lambda: dlblas.rms_norm(x, w, out=leaf),
        lambda: dlblas.rms_norm_(leaf, w),
    ):
        with pytest.raises(errors.ArgumentError, match="requires grad"):
            call()
        with torch.no_grad():
            call()


def test_forward_mode_is_refused_and_not_lost(xw):
    import torch.autograd.forward_ad as forward_ad

    x, w = xw
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(errors.ArgumentError, match="x has a forward-mode tangent"):
            dlblas.rms_norm(dual, w)
        assert dlblas.rms_norm(x, w).shape == x.shape  # no tangent


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's, of some versions
def test_transforms_of_torch_func(xw):
    x, w = xw
    batched = torch.func.vmap(lambda row: dlblas.rms_norm(row, w))(x)
    torch.testing.assert_close(batched, dlblas.rms_norm(x, w))
    with pytest.raises(errors.ArgumentError, match="inside a transform of"):
        torch.func.grad(lambda t: dlblas.rms_norm(t, w).sum())(x)


@pytest.mark.parametrize("direct", [False, True], ids=["dlblas", "torch.ops"])
def test_autograd_notices_what_is_written(xw, direct):
    x, w = xw
    leaf = x.clone().requires_grad_()
    saved = torch.randn_like(x)
    product = (leaf * saved).sum()
    versions = (x._version, w._version)
    if direct:
        torch.ops.dlblas.rms_norm_out(x, w, saved)
    else:
        dlblas.rms_norm(x, w, out=saved)
    assert (x._version, w._version) == versions
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with torch.inference_mode():  # whose tensors have no version
        unversioned = dlblas.rms_norm(x, w, out=torch.empty_like(x))
    refused = RuntimeError if direct else errors.ArgumentError
    with pytest.raises(refused, match=r"out cannot be written here; .* got an inference tensor"):
        if direct:
            torch.ops.dlblas.rms_norm_out(x, w, unversioned)
        else:
            dlblas.rms_norm(x, w, out=unversioned)


# ---- autocast -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_leaves_the_operators_alone(xw, dtype):
    x, w = (t.to(dtype) for t in xw)
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        assert dlblas.rms_norm(x, w).dtype == dtype
        assert torch.ops.dlblas.rms_norm(x, w).dtype == dtype
        assert dlblas.matmul(x, x.T.contiguous()).dtype == dtype
        with pytest.raises(errors.UnsupportedDtypeError, match="b has dtype"):
            dlblas.matmul(x.bfloat16(), torch.randn(48, 3, device=x.device))


# ---- explain, tune and get_op read tensors too --------------------------------------------------


def test_questions_read_tensors(xw):
    x, w = xw
    leaf = x.clone().requires_grad_()  # a question runs nothing
    expected = str(dlblas.explain("rms_norm", x, w))
    assert expected == str(dlblas.explain("rms_norm", leaf, w))
    assert "[T=8 C=48] x f32" in expected
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        if x.device.type == "cpu":  # the threads of the call that is asked about
            assert "; 1 thread\n" in str(dlblas.explain("rms_norm", x, w))
    finally:
        torch.set_num_threads(threads)


# ---- GPU ----------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_the_current_stream_and_its_order():
    x = torch.randn(4096, 4096, device="cuda")
    w = torch.ones(4096, device="cuda")
    expected = dlblas.rms_norm(x + 1, w)
    other = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(20):
        with torch.cuda.stream(other):
            y = x + 1  # still running when the norm is launched
            got = dlblas.rms_norm(y, w)
        other.synchronize()
        assert torch.equal(got, expected)


@pytest.mark.gpu
def test_devices_do_not_mix():
    with pytest.raises(errors.DeviceError, match="weight"):
        dlblas.rms_norm(torch.randn(4, 48, device="cuda"), W48)


@pytest.mark.gpu
def test_cupy_calls_with_a_stream():
    cupy = pytest.importorskip("cupy")
    x, w = cupy.random.standard_normal((64, 4096), dtype="f4"), cupy.ones(4096, "f4")
    expected = torch.nn.functional.rms_norm(
        torch.from_dlpack(x), (4096,), torch.from_dlpack(w), 1e-6
    )
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    y = dlblas.rms_norm(x, w, stream=stream.ptr)
    out = cupy.empty_like(x)
    assert dlblas.rms_norm(x, w, out=out, stream=stream.ptr) is out
    stream.synchronize()
    assert isinstance(y, cupy.ndarray)
    for result in (y, out):
        torch.testing.assert_close(torch.from_dlpack(result), expected, rtol=1e-4, atol=1e-4)


def test_stream_is_for_arrays_on_a_gpu():
    x, w = np.ones((4, 48), np.float32), np.ones(48, np.float32)
    with pytest.raises(errors.ArgumentError, match="stream is given without a GPU"):
        dlblas.rms_norm(x, w, stream=0)
    with pytest.raises(errors.ArgumentError, match="stream has the wrong type"):
        dlblas.rms_norm(x, w, stream="default")
    assert dlblas.rms_norm(x, w, stream=None).shape == x.shape


def test_none_for_a_tensor_names_the_argument():
    x, w = torch.ones(2, 4), torch.ones(4)
    with pytest.raises(RuntimeError, match="rms_norm: x is missing; expected a tensor"):
        torch.ops.dlblas.rms_norm(None, w)
    torch.testing.assert_close(torch.ops.dlblas.rms_norm(x, None), torch.ops.dlblas.rms_norm(x, w))
    with pytest.raises(RuntimeError, match="rms_norm_out: torch refused to describe out"):
        torch.ops.dlblas.rms_norm_out(x, w, out=None)
