"""Products in forms that the operators themselves do not take: matrices that broadcast, vectors,
results whose rows lie at several strides, arrays of a subclass of NumPy's.

Read next: ops/gemm/forms.py, python/dlblas/_joined.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest
from dlblas import errors


def random(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype("f")


def near(got: Any, want: Any) -> None:
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


SHAPES = [
    ((4, 8), (2, 3, 8, 6)),
    ((3, 4, 8), (2, 3, 8, 6)),
    ((2, 1, 4, 8), (1, 3, 8, 6)),
    ((2, 3, 4, 8), (1, 1, 8, 6)),
    ((8,), (2, 3, 8, 6)),
    ((2, 3, 4, 8), (8,)),
    ((4, 8), (8,)),
    ((8,), (8,)),
    ((4, 8), (0, 8, 6)),
    ((0, 4, 8), (1, 8, 6)),
    ((4, 0), (2, 0, 6)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_what_broadcasts_and_vectors(shapes: Any) -> None:
    a, b = (random(*shape) for shape in shapes)
    want = np.matmul(a, b)
    near(dlblas.matmul(a, b), want)
    near(dlblas.matmul(a, b, "relu"), np.maximum(want, 0))
    out = np.full(want.shape, 7, "f")
    assert dlblas.matmul(a, b, out=out) is out
    near(out, want)


def test_what_does_not_broadcast() -> None:
    with pytest.raises(errors.ShapeMismatchError, match=r"^matmul: a has other leading dimensions"):
        dlblas.matmul(random(3, 4, 8), random(2, 8, 6))
    with pytest.raises(errors.ShapeMismatchError, match=r"^matmul: out has another .*\(4,\), got"):
        dlblas.matmul(random(4, 8), random(8), out=random(4, 1))
    with pytest.raises(errors.ShapeMismatchError, match=r"^matmul: b has size 7"):
        dlblas.matmul(random(4, 8), random(7))


@pytest.mark.parametrize("shapes", SHAPES[:8], ids=str)
def test_torch_has_their_gradients_and_one_graph(shapes: Any) -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(random(*shape)).requires_grad_() for shape in shapes)
    want = torch.matmul(a, b)
    factor = torch.randn_like(want)
    wanted = torch.autograd.grad(want, (a, b), factor)
    for function in (dlblas.matmul, torch.compile(dlblas.matmul, fullgraph=True, backend="eager")):
        y = function(a, b)
        torch.testing.assert_close(y, want, rtol=1e-4, atol=1e-4)
        for got, one in zip(torch.autograd.grad(y, (a, b), factor), wanted, strict=True):
            torch.testing.assert_close(got, one, rtol=1e-3, atol=1e-4)


def test_rows_at_several_strides_without_terms_or_columns() -> None:
    a = random(2, 3, 4, 0).swapaxes(0, 1)
    out = np.full((2, 3, 4, 5), 7, "f").swapaxes(0, 1)
    dlblas.matmul(a, random(0, 5), bias=np.ones(5, "f"), out=out)
    assert (out == 1).all()
    assert dlblas.matmul(random(2, 3, 4, 8).swapaxes(0, 2), random(8, 0)).shape == (4, 3, 2, 0)


ROWS = random(2, 3, 4, 8).swapaxes(0, 2)
W = random(6, 8)
CALLS = {
    "linear": lambda out: dlblas.linear(ROWS, W, residual=np.ones((4, 3, 2, 6), "f"), out=out),
    "linear_packed": lambda out: dlblas.linear_packed(ROWS, dlblas.pack_weight(W), out=out),
    "gated_mlp": lambda out: dlblas.gated_mlp(ROWS, W, W, activate="up", out=out),
    "gated_mlp_down": lambda out: dlblas.gated_mlp(ROWS, W, W, w_down=random(6, 6), out=out),
    "fused_gated_mlp": lambda out: dlblas.fused_gated_mlp(ROWS, W, W, out=out),
    "rms_norm_linear": lambda out: dlblas.rms_norm_linear(ROWS, np.ones(8, "f"), W, out=out),
    "rms_norm_linear_rope": lambda out: dlblas.rms_norm_linear(
        ROWS, np.ones(8, "f"), W, rope=(random(2, 2), random(2, 2), 1, 1), out=out
    ),
    "int8_scaled_mm": lambda out: dlblas.int8_scaled_mm(
        np.ones((4, 3, 2, 8), "i1"), np.ones((8, 6), "i1"), np.ones(24, "f"), np.ones(6, "f"),
        "f32", out=out,
    ),
    "fp8_gemm": lambda out: dlblas.fp8_gemm(ROWS, W.T, output_dtype="f32", out=out),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_result_at_several_strides(call: str) -> None:
    memory = np.full((2, 7, 4, 6), 7, "f")
    out = memory[:, ::2].swapaxes(0, 2)[:, 1:]
    assert out.shape == (4, 3, 2, 6)
    got = CALLS[call](out)
    assert got is out
    near(out, CALLS[call](None))
    assert (memory[:, 1::2] == 7).all() and (memory[:, 0] == 7).all()


def test_such_a_result_may_be_the_residual_and_no_other_input() -> None:
    out = np.ones((2, 3, 4, 6), "f").swapaxes(0, 2)
    near(dlblas.linear(ROWS, W, residual=out, out=out), ROWS @ W.T + 1)
    weight = random(6, 8)
    out = np.lib.stride_tricks.as_strided(weight, (2, 2, 6), (32, 64, 4))
    with pytest.raises(errors.ArgumentError, match=r"^gated_mlp: out overlaps w_gate"):
        dlblas.gated_mlp(random(2, 2, 8), weight, W, out=out)
    np.testing.assert_array_equal(weight, random(6, 8))
    wrong = np.ones((2, 3, 4, 5), "f").swapaxes(0, 2)
    with pytest.raises(errors.ShapeMismatchError, match="out"):
        dlblas.gated_mlp(ROWS, W, W, out=wrong)
    assert (wrong == 1).all()


def test_codes_and_scales_at_several_strides() -> None:
    codes = np.zeros((2, 3, 4, 6), ml_dtypes.float8_e4m3fn).swapaxes(0, 2)
    scales = np.zeros((2, 3, 4, 1), "f").swapaxes(0, 2)
    dlblas.gated_mlp_quant(ROWS, W, W, out=(codes, scales))
    q, scale = dlblas.gated_mlp_quant(ROWS, W, W)
    np.testing.assert_array_equal(codes.astype("f"), q.astype("f"))
    np.testing.assert_array_equal(scales, scale)


def test_one_row_has_one_scale() -> None:
    x = random(8)
    near(dlblas.linear(x, W, row_scale=np.array(2, "f")), 2 * (W @ x))


@pytest.mark.parametrize("wrong", [3, "x32", "f64", object, [1], np.float64, np.int8], ids=str)
def test_what_is_no_dtype_of_a_result(wrong: Any) -> None:
    a, b = random(2, 3, 4, 8), random(2, 3, 8, 6)
    f8 = ml_dtypes.float8_e4m3fn
    turned = [x.swapaxes(0, 1) for x in (a, b)]
    calls: list[tuple[str, Any]] = [
        ("bmm", lambda: dlblas.bmm(a, b, out_dtype=wrong)),
        ("matmul", lambda: dlblas.matmul(*turned, out_dtype=wrong)),
        ("matmul", lambda: dlblas.matmul(a.swapaxes(0, 2), b[0, 0], out_dtype=wrong)),
        ("bmm_fp8", lambda: dlblas.bmm_fp8(*(x.astype(f8) for x in turned), 1.0, 1.0, wrong)),
    ]
    for name, call in calls:
        with pytest.raises(errors.ArgumentError, match=f"^{name}: out_dtype .* f32, f16, bf16"):
            call()


class Mine(np.ndarray):
    """A subclass that is not defined in NumPy."""


def test_arrays_of_a_subclass() -> None:
    def mine(*shape: int) -> Any:
        return random(*shape).view(Mine)

    a, b, w = mine(2, 3, 4, 8), mine(2, 3, 8, 6), mine(12, 8)
    near(dlblas.bmm(a, b), np.asarray(a) @ np.asarray(b))
    near(dlblas.matmul(a.swapaxes(0, 2), w.T), np.asarray(a).swapaxes(0, 2) @ np.asarray(w).T)
    near(dlblas.matmul(a, b[:1]), np.asarray(a) @ np.asarray(b[:1]))
    packed = dlblas.pack_weight(w).view(Mine)
    near(dlblas.linear_packed(a, packed), np.asarray(a) @ np.asarray(w).T)
    rope = mine(4, 2), mine(4, 2), 1, 1, "interleaved_to_half", 4
    plain = tuple(np.asarray(x) if isinstance(x, np.ndarray) else x for x in rope)
    got = dlblas.rms_norm_linear(a, mine(8), w, rope=rope)
    near(got, dlblas.rms_norm_linear(np.asarray(a), random(8), np.asarray(w), rope=plain))
    loss = dlblas.fused_linear_cross_entropy(mine(4, 8), w, np.zeros(4, "i8").view(Mine))
    near(loss, dlblas.fused_linear_cross_entropy(random(4, 8), random(12, 8), np.zeros(4, "i8")))
    codes = np.full((4, 8), 0x38, "u1").view(Mine)  # ones, as bits
    near(dlblas.fp8_gemm(codes, codes.T, 1.0, 1.0, "f32"), np.full((4, 4), 8.0))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
def test_ffn_takes_arrays_of_numpy(dtype: Any) -> None:
    call, e5m2 = dlblas.kernels.ffn.call, ml_dtypes.float8_e5m2
    x, codes = random(2, 3, 8).astype(dtype), [random(6, 8), random(6, 8) + 1, random(8)]
    codes = [c.astype(e5m2) for c in codes]
    y = call(x, *(c.astype(dtype) for c in codes))
    wide = x.astype("f8")
    normed = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * codes[2].astype("f8")
    gate, up = (normed @ c.astype("f8").T for c in codes[:2])
    want = gate / (1 + np.exp(-gate)) * up
    assert y.dtype == dtype
    assert np.linalg.norm(y.astype("f8") - want) <= 2e-2 * np.linalg.norm(want)
    np.testing.assert_array_equal(call(x, *codes), y)
    np.testing.assert_array_equal(call(x, *(c.view("i1") for c in codes)), y)
    with pytest.raises(errors.UnsupportedDtypeError, match=r"^ffn.call: x .* f16 or bf16, got f"):
        call(random(2, 8), *codes)
