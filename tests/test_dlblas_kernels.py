"""dlblas.kernels: DLBlas's names are thin wrappers around ours, with its argument orders and
rounding.

Read next: python/dlblas/kernels/.
"""

from __future__ import annotations

import dlblas
import ml_dtypes
import numpy as np
import pytest
from dlblas.kernels import activation, add_rms_norm, rms_norm


@pytest.fixture(name="arrays")
def _arrays():
    rng = np.random.default_rng(5)
    x, residual = (rng.standard_normal((7, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    return x, rng.standard_normal(64).astype(ml_dtypes.bfloat16), residual


def test_rms_norm_is_ours(arrays) -> None:
    x, weight, residual = arrays
    y = rms_norm.rms_norm(x, weight, 1e-5)
    np.testing.assert_array_equal(y, dlblas.rms_norm(x, weight, 1e-5))
    expected = dlblas.add_rms_norm(x, weight, residual, 1e-5)
    for got, want in zip(rms_norm.rms_norm(x, weight, 1e-5, residual), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_rms_norm_writes_where_it_is_told(arrays) -> None:
    x, weight, residual = arrays
    out = np.zeros_like(x)
    rms_norm.rms_norm(x, weight, out=out)
    np.testing.assert_array_equal(out, dlblas.rms_norm(x, weight))
    expected = dlblas.add_rms_norm(x, weight, residual)
    rms_norm.rms_norm(x, weight, residual=residual, out=x, out_residual=residual)
    np.testing.assert_array_equal(x, expected[0])
    np.testing.assert_array_equal(residual, expected[1])


@pytest.mark.parametrize("package", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["out", "out_residual"])
def test_rms_norm_makes_the_result_that_has_no_place(arrays, name, package) -> None:
    x, weight, residual = arrays
    expected = dlblas.add_rms_norm(x, weight, residual)
    if package == "torch":
        torch = pytest.importorskip("torch")
        x, weight, residual = (
            torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) for a in arrays
        )
        expected = dlblas.add_rms_norm(x, weight, residual)
    place = expected[0] * 0
    got = rms_norm.rms_norm(x, weight, residual=residual, **{name: place})
    assert got[name == "out_residual"] is place
    for one, want in zip(got, expected, strict=True):
        assert one.dtype == want.dtype and bool((one == want).all())


def test_rms_norm_refuses_a_sum_of_nothing(arrays) -> None:
    x, weight, residual = arrays
    words = "out_residual is given; expected None without a residual"
    with pytest.raises(dlblas.errors.ArgumentError, match=words):
        rms_norm.rms_norm(x, weight, out_residual=residual)
    for value in (None, [1.0], "ab"):
        with pytest.raises(dlblas.errors.ArgumentError, match="hidden_states is no array"):
            rms_norm.rms_norm(value, weight, residual=residual, out=x)


def test_add_rms_norm_rounds_before_the_weight(arrays) -> None:
    x, weight, residual = arrays
    h = (x.astype(np.float32) + residual.astype(np.float32)).astype(x.dtype)
    wide = h.astype(np.float64)
    normed = wide / np.sqrt(np.mean(wide * wide, -1, keepdims=True) + 1e-5)
    expected = (normed.astype(x.dtype).astype(np.float32) * weight.astype(np.float32)).astype(
        x.dtype
    )
    y, out = add_rms_norm.call(x, weight, 1e-5, residual)
    np.testing.assert_array_equal(out, h)
    assert (y != expected).mean() < 0.01  # ties of the first rounding alone
    once = dlblas.add_rms_norm(x, weight, residual, 1e-5)[0]
    assert (once != expected).mean() > 0.05
    alone = add_rms_norm.call(h, weight, 1e-5)
    np.testing.assert_array_equal(alone, y)


def test_silu_and_mul(arrays) -> None:
    x, _, _ = arrays
    y = activation.silu_and_mul(x)
    np.testing.assert_array_equal(y, dlblas.silu_and_mul(x))
    out = np.zeros_like(y)
    activation.silu_and_mul(x, out)
    np.testing.assert_array_equal(out, y)
