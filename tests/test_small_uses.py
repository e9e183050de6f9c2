"""What torch users try first: products of more than two dimensions, modules without a weight,
dtypes by the names that people write, and errors that say what to do.

Read next: ops/gemm/matmul/matmul.cpp, python/dlblas/_dtypes.py, bindings/python/marshal.cpp.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest
from dlblas import _dtypes, errors

# ---- matmul of more dimensions -------------------------------------------------------------------


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype("f")


@pytest.mark.parametrize("shape", [(3, 5, 7, 32), (2, 16, 32), (64, 2, 32), (32,), (0, 3, 32)])
def test_leading_dimensions_are_rows(shape: tuple[int, ...]) -> None:
    a, b, bias = random(*shape), random(32, 24), random(24)
    for implementation in dlblas.explain("matmul", a, b, bias=bias).as_dict()["candidates"]:
        name = implementation["implementation"]
        if not implementation["supports"]:
            continue
        with dlblas.pinned("matmul", name):
            y = dlblas.matmul(a, b, bias=bias)
        assert y.shape == (a @ b).shape
        np.testing.assert_allclose(y, a @ b + bias, rtol=1e-4, atol=1e-4)
        assert dlblas.verify("matmul", (a, b), y, kwargs={"bias": bias}).wrong == 0
    out = np.empty((*shape[:-1], 24), "f")
    dlblas.matmul(a, b, out=out)
    np.testing.assert_array_equal(out, dlblas.matmul(a.reshape(-1, 32), b).reshape(out.shape))


def test_slices_of_a_projection_are_multiplied_where_they_lie_and_tuned() -> None:
    a, b = random(3, 5, 96)[..., 32:64], random(32, 24)
    np.testing.assert_allclose(dlblas.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    matmul = dlblas.get_op("matmul", (a, b), seconds=0.3, worker=False)
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    same = dlblas.explain("matmul", a, b).as_dict()
    flat = dlblas.explain("matmul", random(15, 96)[:, 32:64], b).as_dict()
    assert same["source"] == flat["source"] == "store"  # one key with the matrix


@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        ((3, 5, 32), (1, 0, 2)),
        ((5, 3, 32), (1, 0, 2)),
        ((2, 3, 4, 32), (1, 0, 2, 3)),
        ((2, 3, 4, 32), (0, 2, 1, 3)),
        ((2, 3, 4, 32), (2, 1, 0, 3)),
        ((2, 3, 4, 32), (1, 2, 0, 3)),
    ],
    ids=str,
)
def test_rows_at_several_strides_are_multiplied(sizes: Any, order: Any) -> None:
    a, b, bias = random(*sizes).transpose(order), random(32, 24), random(24)
    wanted = np.maximum(a @ b + bias, 0)
    y = dlblas.matmul(a, b, "relu", bias=bias)
    assert y.flags.c_contiguous
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
    rest = dlblas.matmul(np.ascontiguousarray(a), b, "relu", bias=bias)  # leaves an older form
    np.testing.assert_allclose(rest, wanted, rtol=1e-4, atol=1e-4)
    out = np.full((*sizes[:-1], 24), 7, "f").transpose(order)
    assert dlblas.matmul(a, b, "relu", bias=bias, out=out) is out
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    out = np.full((*sizes[:-1], 24), 7, "f").transpose(order)
    assert dlblas.matmul(np.ascontiguousarray(a), b, "relu", bias=bias, out=out) is out
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    square = random(*sizes).transpose(order)
    with pytest.raises(errors.ArgumentError, match="matmul: out overlaps a"):
        dlblas.matmul(square, random(32, 32), out=square)


def test_rows_at_several_strides_in_torch() -> None:
    torch = pytest.importorskip("torch")
    a, w = torch.randn(3, 5, 32).transpose(0, 1), torch.randn(24, 32)
    wanted, gain, table = a @ w.T, torch.rand(32), torch.rand(15, 8)
    calls = {
        "matmul": lambda ops, a: ops.matmul(a, w.T),
        "linear_residual": lambda ops, a: ops.linear_residual(a, w, residual=a[..., :24]),
        "gated_linear": lambda ops, a: ops.gated_linear(a, w, w),
        "norm_linear": lambda ops, a: ops.norm_linear(a, gain, w),
        "norm_gated_linear": lambda ops, a: ops.norm_gated_linear(a, gain, w, w),
        "linear_rope": lambda ops, a: ops.linear_rope(a, w, table, table, 2),
    }
    for name, call in calls.items():
        of_rows = call(dlblas, a.contiguous())
        for ops in (dlblas, torch.ops.dlblas):
            torch.testing.assert_close(call(ops, a), of_rows, msg=f"{name} of {ops.__name__}")
        compiled = torch.compile(lambda a, call=call: call(dlblas, a), backend="aot_eager")
        torch.testing.assert_close(compiled(a), of_rows, msg=f"{name}, compiled")
    for ops in (dlblas, torch.ops.dlblas):
        x = a.detach().requires_grad_()
        y = ops.matmul(x, w.T)
        torch.testing.assert_close(y.detach(), wanted)
        (made,) = torch.autograd.grad(y.sum(), [x])
        torch.testing.assert_close(made, w.sum(0).expand_as(x))
    codes = torch.ones(3, 5, 32, dtype=torch.int8).transpose(0, 1)
    one, b = torch.ones(5, 3, 1), torch.ones(32, 24, dtype=torch.int8)
    for ops in (dlblas, torch.ops.dlblas):
        made = ops.scaled_mm_channel(codes, b, one, torch.ones(24), out_dtype=torch.float32)
        assert (made == 32).all()


def test_what_is_no_matrix_is_refused_with_a_remedy() -> None:
    with pytest.raises(errors.ShapeMismatchError, match="matmul: a has other leading dimensions"):
        dlblas.matmul(random(3, 4, 32), random(2, 32, 24))


@pytest.mark.parametrize("lead", [(2,), (2, 3)])
def test_matrices_on_both_sides_are_a_batch(lead: tuple[int, ...]) -> None:
    a, b, bias = random(*lead, 4, 32), random(*lead, 32, 24), random(24)
    np.testing.assert_allclose(dlblas.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    out = np.empty((*lead, 4, 24), "f")
    assert dlblas.matmul(a, b, "relu", bias=bias, out=out) is out
    np.testing.assert_allclose(out, np.maximum(a @ b + bias, 0), rtol=1e-4, atol=1e-4)
    torch = pytest.importorskip("torch")
    p, q = torch.from_numpy(a), torch.from_numpy(b)
    compiled = torch.compile(
        lambda a, b: dlblas.matmul(a, b), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for run in (dlblas.matmul, compiled):
        torch.testing.assert_close(run(p, q), p @ q, rtol=1e-4, atol=1e-4)
    dlblas.matmul(p.requires_grad_(), q).sum().backward()  # as bmm's
    want = torch.ones_like(p @ q) @ q.transpose(-1, -2)
    torch.testing.assert_close(p.grad, want, rtol=1e-4, atol=1e-4)


def test_a_shape_that_cannot_be_asked_for_is_refused() -> None:
    class Hostile:
        @property
        def shape(self) -> Any:
            raise RuntimeError

    for shape in (property(lambda _: 1 / 0), 7, None, Hostile(), ((),) * 3):
        lying = type("Lying", (), {"shape": shape})()
        with pytest.raises(dlblas.Error, match=r"^matmul: .*; expected "):
            dlblas.matmul(lying, np.zeros((2, 8, 3), np.float32))


def test_in_torch_eager_traced_and_by_the_operator() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(random(2, 4, 32)), torch.from_numpy(random(32, 24))
    compiled = torch.compile(
        lambda a, b: dlblas.matmul(a, b), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for run in (dlblas.matmul, torch.ops.dlblas.matmul, compiled):
        torch.testing.assert_close(run(a, b), a @ b, rtol=1e-4, atol=1e-4)


# ---- modules without a weight --------------------------------------------------------------------


def test_norms_without_parameters() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(5, 64)
    norm = dlblas.nn.RMSNorm(64, elementwise_affine=False)
    assert norm.weight is None and not norm.state_dict() and not list(norm.parameters())
    torch.testing.assert_close(norm(x), torch.nn.RMSNorm(64, 1e-6, elementwise_affine=False)(x))
    ones = dlblas.nn.RMSNorm(64)
    assert torch.equal(norm(x), ones(x)) and torch.equal(norm(x, x)[0], ones(x, x)[0])
    assert "elementwise_affine=False" in repr(norm)
    half = x.bfloat16()
    for of in (norm, norm.half(), dlblas.nn.RMSNorm(64, elementwise_affine=False).bfloat16()):
        assert torch.equal(of(half), ones.bfloat16()(half))  # a product with 1 is exact
    graph = torch.compile(norm, fullgraph=True, backend="aot_eager")
    assert torch.equal(graph(half), norm(half))
    x.requires_grad_()
    norm(x).square().sum().backward()
    assert x.grad is not None
    layer = dlblas.nn.LayerNorm(64, elementwise_affine=False)
    torch.testing.assert_close(layer(x), torch.nn.functional.layer_norm(x, (64,)))
    with pytest.raises(errors.ArgumentError, match="weight_offset has no weight"):
        dlblas.nn.RMSNorm(64, elementwise_affine=False, weight_offset=1.0)


# ---- names of dtypes -----------------------------------------------------------------------------

WRITTEN = {
    "f32": ["fp32", "FP32", "float", "float32", "single", "torch.float32"],
    "f16": ["fp16", "half", "float16", "Float16"],
    "bf16": ["bfloat16", "BF16", "torch.bfloat16"],
    "f8e4m3": ["fp8", "fp8_e4m3", "fp8_e4m3fn", "float8_e4m3fn", "float8_e4m3", "e4m3"],
    "f8e5m2": ["fp8_e5m2", "float8_e5m2", "e5m2"],
    "f64": ["double", "fp64"],
    "i64": ["int64", "long"],
}


@pytest.mark.parametrize(("name", "words"), WRITTEN.items())
def test_dtypes_by_the_names_that_people_write(name: str, words: list[str]) -> None:
    for word in words:
        assert _dtypes.name_of(word) == name, word
        assert dlblas.Spec((1,), word).dtype == name
    assert _dtypes.name_of("floaty") is None


def test_names_of_dtypes_wherever_one_is_taken() -> None:
    x = random(4, 8)
    assert dlblas.matmul(x, x.T, out_dtype="FP16").dtype == np.float16
    q, _ = dlblas.quantize(x, "token", "fp8_e5m2")
    assert q.dtype == ml_dtypes.float8_e5m2
    assert dlblas.quantize_token(x, "fp8_e4m3")[0].dtype == ml_dtypes.float8_e4m3fn
    # A dtype with other values for the same bits is not one of ours.
    with pytest.raises(errors.ArgumentError, match="dtype is not a dtype"):
        dlblas.quantize_token(x, ml_dtypes.float8_e4m3)


# ---- errors --------------------------------------------------------------------------------------


def test_f64_is_refused_with_the_remedy() -> None:
    x = np.ones((4, 8))
    with pytest.raises(errors.UnsupportedDtypeError, match=r"got f64; .*astype\(np.float32\)"):
        dlblas.rms_norm(x, np.ones(8, "f"))


def check_out(array) -> None:
    x, w, wide = array((4, 8)), array((8,)), array((4, 9))
    for call, argument, words in [
        (lambda: dlblas.rms_norm(x, w, out=wide), "out", "rms_norm: out has size 9"),
        (
            lambda: dlblas.add_rms_norm(x, w, x, out=(array((4, 8)), wide)),
            "out[1]",
            "add_rms_norm: out[1] (residual_out) has size 9",
        ),
    ]:
        with pytest.raises(errors.ShapeMismatchError) as caught:
            call()
        assert str(caught.value).startswith(words) and caught.value.argument == argument
    # Another argument keeps its own name, with `out` and without it.
    with pytest.raises(errors.ShapeMismatchError, match="rms_norm: weight has length 4"):
        dlblas.rms_norm(x, array((4,)), out=x)


def test_an_error_of_out_calls_it_out() -> None:
    check_out(lambda shape: np.ones(shape, "f"))


def test_an_error_of_out_calls_it_out_in_torch() -> None:
    torch = pytest.importorskip("torch")
    check_out(lambda shape: torch.ones(shape))


# ---- did you mean --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "near"),
    [
        (lambda x: dlblas.get_op("rmsnorm", (x, x)), "rms_norm"),
        (lambda x: dlblas.tune("rms_norm", (x, x), secnds=1), "seconds"),
        (lambda x: dlblas.tune("rms_norm", (x, x), effort="quik"), "quick"),
        (lambda x: dlblas.rms_norm(x, wieght=x), "weight"),
        (lambda x: dlblas.matmul(x, x, "reluu"), "relu"),
        (lambda x: dlblas.quantize(x, "tokn"), "token"),
        (lambda x: dlblas.pin("rms_norm", "cpu_avx51"), "cpu_avx512"),
    ],
)
def test_a_word_that_is_nearly_right(call: Any, near: str) -> None:
    with pytest.raises(errors.Error, match=rf"did you mean {near}\?") as told:
        call(random(8, 8))
    assert str(told.value).count("did you mean") == 1


def test_what_is_not_near_is_not_suggested() -> None:
    for call in (
        lambda: dlblas.matmul(random(8, 8), random(8, 8), "nonsense"),
        lambda: dlblas.rms_norm(random(8, 8).astype(np.float64), random(8)),
        lambda: dlblas.rms_norm(random(8, 8), random(7)),
    ):
        with pytest.raises(errors.Error) as told:
            call()
        assert "did you mean" not in str(told.value)


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("explain rms_norm --dmis T=1,C=4", "--dims"),
        ("cache shw", "show"),
        ("explan rms_norm", "explain"),
        ("explain rmsnorm --dims T=1,C=4", "rms_norm"),
    ],
)
def test_a_command_that_is_nearly_right(words: str, near: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(pathlib.Path(dlblas.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-m", "dlblas", *words.split()],
        env=env, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 2 and f"did you mean {near}?" in done.stderr


def test_a_verdict_is_true_where_it_is_right() -> None:
    x, w = np.ones((4, 8), np.float32), np.ones(8, np.float32)
    y = np.array(dlblas.rms_norm(x, w))
    assert dlblas.verify("rms_norm", (x, w), y)
    y[3, 7] *= 2
    assert not dlblas.verify("rms_norm", (x, w), y)
