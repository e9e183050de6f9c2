"""dlblas.bmm: each matrix of a batch as matmul has it. Read next: ops/gemm/api.py."""

from __future__ import annotations

from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest
from dlblas import errors


def random(*shape: int) -> Any:
    return np.random.default_rng(5).standard_normal(shape).astype("f")


@pytest.mark.parametrize("lead", [(3,), (2, 3), (1,), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_each_matrix_is_a_matmul(lead: tuple[int, ...], dtype: Any) -> None:
    a, b = random(*lead, 5, 32).astype(dtype), random(*lead, 32, 7).astype(dtype)
    y = dlblas.bmm(a, b)
    assert y.shape == (*lead, 5, 7) and y.dtype == a.dtype
    for at in np.ndindex(*lead):
        np.testing.assert_array_equal(y[at], dlblas.matmul(a[at], b[at]))


def test_strides_bias_activation_out_and_dtype() -> None:
    a, b, bias = random(4, 32, 6).swapaxes(1, 2), random(4, 9, 32).swapaxes(1, 2), random(9)
    wanted = np.maximum(a @ b + bias, 0)
    np.testing.assert_allclose(dlblas.bmm(a, b, "relu", bias=bias), wanted, rtol=1e-4, atol=1e-4)
    out = np.full((6, 4, 9), 7, "f").swapaxes(0, 1)
    assert dlblas.bmm(a, b, "relu", bias=bias, out=out) is out
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    assert dlblas.bmm(a, b, out_dtype="f16").dtype == np.float16
    shared = np.broadcast_to(b[:1], b.shape)  # one matrix for all
    np.testing.assert_allclose(dlblas.bmm(a, shared), a @ b[0], rtol=1e-4, atol=1e-4)


def test_one_matrix_is_matmul() -> None:
    a, b = random(2, 3, 32), random(32, 7)
    np.testing.assert_array_equal(dlblas.bmm(a, b), dlblas.matmul(a, b))


def test_other_leading_dimensions_are_refused() -> None:
    for a, b in ((random(2, 3, 4), random(3, 4, 5)), (random(3, 4), random(2, 4, 5))):
        with pytest.raises(errors.ShapeMismatchError, match="bmm: a has other leading"):
            dlblas.bmm(a, b)
    with pytest.raises(errors.ShapeMismatchError, match="matmul: "):
        dlblas.bmm(random(2, 3, 4), random(2, 5, 6))


def test_in_torch_eager_and_compiled() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.randn(3, 5, 32), torch.randn(3, 32, 7)
    graph = torch.compile(lambda a, b: dlblas.bmm(a, b), fullgraph=True, backend="aot_eager")
    for run in (dlblas.bmm, graph):
        torch.testing.assert_close(run(a, b), torch.bmm(a, b), rtol=1e-4, atol=1e-4)
    half = dlblas.bmm(a.bfloat16(), b.bfloat16(), out_dtype=torch.float32)
    assert half.dtype is torch.float32
