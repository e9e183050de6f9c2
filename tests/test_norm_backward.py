"""rms_norm_backward against the forward formula: its finite differences in f64 and, where torch is
installed, torch's autograd; the same bits on any number of threads.

Read next: ops/norm/rms_norm_backward/rms_norm_backward_ref.hpp, tests/test_cases.py (every case by
the bound).
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.harness import abi, load_registry
from gradients import differences, draws

EPS = 1e-5


def fast() -> list[str]:
    """Implementations that run here, including the reference."""
    op = next(o for o in dlblas.info()["operators"] if o["name"] == "rms_norm_backward")
    levels = ["baseline", "avx2", "avx512"]
    known = levels[: levels.index(load_registry().device["isa"]) + 1]
    names = [i["name"] for i in op["implementations"] if i["backend"] == "cpu"]
    return [n for n in names if n[4:] in known or not n.startswith("cpu_")]


def forward(x: Any, weight: Any, offset: float) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPS) * (weight + offset)


@pytest.mark.parametrize("implementation", fast())
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_it_is_the_derivative_of_rms_norm(implementation: str, offset: float) -> None:
    shape = (3, 2, 19)
    dy, x, weight = draws(shape, shape, 19)
    with dlblas.pinned("rms_norm_backward", implementation):
        dx, dweight = dlblas.rms_norm_backward(dy, x, weight, eps=EPS, weight_offset=offset)
    x64, weight64 = x.astype(np.float64), weight.astype(np.float64)

    def loss() -> Any:
        return np.sum(forward(x64, weight64, offset) * dy)

    np.testing.assert_allclose(dx, differences(loss, x64), rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(dweight, differences(loss, weight64), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("implementation", fast())
def test_it_is_the_derivative_of_add_rms_norm(implementation: str) -> None:
    """With x = residual_out and its gradient as dresidual, dx is the gradient of both x and
    residual."""
    shape = (4, 21)
    dy, x, residual, dresidual, weight = draws(shape, shape, shape, shape, 21)
    h = x + residual
    with dlblas.pinned("rms_norm_backward", implementation):
        dx, dweight = dlblas.rms_norm_backward(dy, h, weight, dresidual, EPS)
    x64, residual64 = x.astype(np.float64), (h.astype(np.float64) - x)
    weight64 = weight.astype(np.float64)

    def loss() -> Any:
        total = x64 + residual64
        return np.sum(forward(total, weight64, 0) * dy) + np.sum(total * dresidual)

    for leaf in (x64, residual64):
        np.testing.assert_allclose(dx, differences(loss, leaf), rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(dweight, differences(loss, weight64), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_torchs_autograd_agrees(name: str) -> None:
    torch = pytest.importorskip("torch")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype: Any = ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)
    dy, x, weight = (a.astype(dtype) for a in draws((33, 160), (33, 160), 160))
    dx, dweight = dlblas.rms_norm_backward(dy, x, weight, eps=EPS)
    x64, weight64 = (torch.from_numpy(a.astype(np.float64)).requires_grad_() for a in (x, weight))
    y = torch.nn.functional.rms_norm(x64, (160,), weight64, EPS)
    y.backward(torch.from_numpy(dy.astype(np.float64)))
    step = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1e-2}[name]
    for ours, theirs in ((dx, x64.grad), (dweight, weight64.grad)):
        np.testing.assert_allclose(
            ours.astype(np.float64), theirs.numpy(), rtol=step, atol=4 * step
        )


@pytest.mark.parametrize("rows", [1, 9, 130, 700])
@pytest.mark.parametrize("implementation", fast())
def test_the_bits_are_the_same_on_any_number_of_threads(implementation: str, rows: int) -> None:
    dy, x, weight = draws((rows, 40), (rows, 40), 40)
    seen = set()
    with dlblas.pinned("rms_norm_backward", implementation):
        for threads in (1, 2, 3, 8):
            out = (np.full((rows, 40), np.nan, np.float32), np.full(40, np.nan, np.float32))
            abi.call("rms_norm_backward", {"dy": dy, "x": x, "weight": weight}, out, threads)
            assert not any(np.isnan(a).any() for a in out)
            seen.add(b"".join(a.tobytes() for a in out))
    assert len(seen) == 1


@pytest.mark.parametrize("implementation", fast())
def test_no_rows_have_the_weights_gradient_zero(implementation: str) -> None:
    nothing, weight = np.zeros((0, 24), np.float32), np.ones(24, np.float32)
    dweight = np.full(24, np.nan, np.float32)
    with dlblas.pinned("rms_norm_backward", implementation):
        dlblas.rms_norm_backward(nothing, nothing, weight, out=(nothing.copy(), dweight))
    np.testing.assert_array_equal(dweight, np.zeros(24, np.float32))


@pytest.mark.parametrize("implementation", fast())
def test_a_nan_stays_in_its_row_of_dx_and_reaches_all_of_dweight(implementation: str) -> None:
    dy, x, weight = draws((5, 40), (5, 40), 40)
    x[2, 7] = np.nan
    with dlblas.pinned("rms_norm_backward", implementation):
        dx, dweight = dlblas.rms_norm_backward(dy, x, weight)
    assert np.isnan(dx[2]).all() and np.isfinite(np.delete(dx, 2, axis=0)).all()
    assert np.isnan(dweight).all()


@pytest.mark.attack("sums that leave f32 on the way")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [3, 700])
def test_dweight_whose_partial_sums_leave_f32(dtype: str, rows: int) -> None:
    """The sums over a chunk of rows are f32, and may overflow where the whole sum does not."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.float32 if dtype == "float32" else ml_dtypes.bfloat16
    dy = np.full((rows, 70), 3e38).astype(kind)
    dy[rows // 3 :] = 0
    dy[-(rows // 3) :] = -dy[0]
    dy[0, 5] /= 2
    dy[0, 6] = np.inf
    dy[1, 7] = np.nan
    x, weight = np.ones((rows, 70), kind), np.ones(70, kind)
    for name in ("cpu_avx512", "cpu_avx2", "cpu_baseline"):
        try:
            with dlblas.pinned("rms_norm_backward", name):
                _, dweight = dlblas.rms_norm_backward(dy, x, weight)
        except dlblas.errors.UnsupportedError:
            continue
        got = dweight.astype(np.float64)
        assert np.isposinf(got[6]) and np.isnan(got[7])
        assert got[5] < -1e38
        assert np.abs(np.delete(got, (5, 6, 7))).max() <= 2.0**-20 * 3e38


def lying(x: Any, way: str) -> Any:
    """The same values, the elements of a row apart."""
    if way == "transposed":
        return np.ascontiguousarray(x.reshape(-1, x.shape[-1]).T).T.reshape(x.shape)
    if way == "reversed":
        return np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    return np.repeat(x, 2, -1)[..., ::2]


@pytest.mark.parametrize("implementation", fast())
@pytest.mark.parametrize("way", ["transposed", "reversed", "halved"])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_rows_of_elements_apart_have_the_same_bits(
    implementation: str, way: str, dtype: str
) -> None:
    """Copied a few at a time; with any of the tensors apart, some rows beyond f32's squares."""
    for shape in ((67, 96), (300, 33), (5, 4099), (1, 7)):
        given = [x.astype(dtype) for x in draws(shape, shape, shape)]
        if dtype == "f4":
            given[1][::3] *= np.float32(1e25)
        weight = draws(shape[1])[0].astype(dtype)
        out = np.empty(shape, dtype), np.empty(shape[1], dtype)
        with dlblas.pinned("rms_norm_backward", implementation):
            expected = dlblas.rms_norm_backward(given[0], given[1], weight, given[2], EPS)
            for apart in range(1, 32):
                now = [lying(x, way) if apart >> i & 1 else x for i, x in enumerate(given)]
                w = lying(weight, "halved") if apart >> 3 & 1 else weight
                dx = lying(out[0], way) if apart >> 4 & 1 else out[0]
                dx[...], out[1][...] = 7, 7
                dlblas.rms_norm_backward(now[0], now[1], w, now[2], EPS, out=(dx, out[1]))
                assert np.array_equal(dx, expected[0]) and np.array_equal(out[1], expected[1])


def test_no_layout_runs_the_reference() -> None:
    x, weight = np.ones((96, 64), np.float32), np.ones(64, np.float32)
    for rows in (lying(x, "transposed"), lying(x, "halved"), np.broadcast_to(x[:, :1], x.shape)):
        told = str(dlblas.explain("rms_norm_backward", rows, rows, weight))
        assert "reference" not in told.splitlines()[0], told
