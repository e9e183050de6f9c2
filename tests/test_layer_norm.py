"""layer_norm where an f32 formula would lose digits: rows with a large mean, constant rows, rows of
any magnitude; and against torch's own.

Runs at every level that this CPU has. Read next: ops/norm/layer_norm/layer_norm_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from levels import LEVELS


def exact(x: Any, eps: float = 1e-5) -> Any:
    wide = x.astype(np.float64)
    difference = wide - wide.mean(-1, keepdims=True)
    return difference / np.sqrt((difference**2).mean(-1, keepdims=True) + eps)


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("width", [5, 100, 4096, 40000])
@pytest.mark.parametrize("mean", [1e4, -1e4, 1e6])
def test_a_large_mean_costs_no_digits(name: str, width: int, mean: float) -> None:
    """E[x²] − E[x]² in f32 would keep no digits, and just rounding the mean to f32 would leave
    three."""
    x = (mean + np.random.default_rng(3).uniform(-1, 1, (8, width))).astype(np.float32)
    with dlblas.pinned("layer_norm", name):
        y = dlblas.layer_norm(x)
    assert dlblas.verify("layer_norm", (x,), y).ok
    assert np.abs(y - exact(x)).max() < 4e-6


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("value", [0.0, 0.1, -3.7, 12345.678, 1e20])
@pytest.mark.parametrize("width", [3, 64, 1000, 9000])
def test_constant_rows_are_zero(name: str, value: float, width: int) -> None:
    x = np.full((4, width), value, np.float32)
    with dlblas.pinned("layer_norm", name):
        y = dlblas.layer_norm(x)
    if abs(value) < 1e10:  # beyond, what f32 leaves of the mean's digits is larger than eps
        assert np.abs(y).max() < 1e-3
    assert dlblas.verify("layer_norm", (x,), y).ok


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("power", [-60, -30, -10, 0, 30, 60, 80])
@pytest.mark.parametrize("eps", [1e-5, 1e-12])
def test_rows_of_any_size(name: str, power: int, eps: float) -> None:
    x = (2.0**power * np.random.default_rng(5).standard_normal((6, 4100))).astype(np.float32)
    with dlblas.pinned("layer_norm", name):
        y = dlblas.layer_norm(x, eps=eps)
    assert dlblas.verify("layer_norm", (x,), y, {"eps": eps}).ok
    assert np.abs(y - exact(x, eps)).max() < 1e-5


@pytest.mark.parametrize("name", LEVELS)
def test_one_outlier_hides_nothing(name: str) -> None:
    x = np.random.default_rng(6).standard_normal((6, 513)).astype(np.float32)
    x[::2, 0], x[1::2, -1] = 1e6, -1e6
    with dlblas.pinned("layer_norm", name):
        y = dlblas.layer_norm(x)
    assert dlblas.verify("layer_norm", (x,), y).ok
    assert np.abs(y - exact(x)).max() < 2e-5


def test_the_oracle_refuses_a_mean_that_f32_rounded() -> None:
    """The result of a kernel without the correction, for rows around 1e4."""
    x = (1e4 + np.random.default_rng(8).uniform(-1, 1, (8, 4096))).astype(np.float32)
    mean = x.astype(np.float64).mean(-1, keepdims=True) * (1 + 2.0**-22)
    spoilt = ((x - mean) / np.sqrt(x.astype(np.float64).var(-1, keepdims=True) + 1e-5)).astype(
        np.float32
    )
    assert not dlblas.verify("layer_norm", (x,), spoilt).ok


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_as_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(2)
    x, weight, bias = (torch.randn(s).to(getattr(torch, dtype)) for s in ((9, 300), 300, 300))
    for w, b in ((weight, bias), (weight, None), (None, bias), (None, None)):
        want = torch.nn.functional.layer_norm(
            x.double(), (300,), *(None if p is None else p.double() for p in (w, b))
        )
        got = dlblas.layer_norm(x, w, b)
        assert got.dtype is x.dtype
        off = torch.finfo(x.dtype).eps * (4 if dtype == "float32" else 1)
        assert ((got.double() - want).abs() <= off * (1 + want.abs())).all()
