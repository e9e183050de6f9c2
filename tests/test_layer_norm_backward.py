"""layer_norm_backward against the forward formula: its finite differences in f64 and, where torch
is installed, torch's autograd; rows with a large mean; the same bits on any number of threads.

Read next: ops/norm/layer_norm_backward/layer_norm_backward_ref.hpp, docs/row_programs.md (folds).
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.harness import abi
from gradients import differences, draws
from levels import LEVELS

OP, EPS = "layer_norm_backward", 1e-5
NAMES = [*LEVELS, "reference"]


def forward(x: Any, weight: Any, bias: Any) -> Any:
    difference = x - x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt((difference**2).mean(-1, keepdims=True) + EPS)
    return difference * rstd * weight + bias


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("weighted", [True, False])
def test_it_is_the_derivative_of_layer_norm(name: str, weighted: bool) -> None:
    shape = (3, 2, 19)
    dy, x, weight = draws(shape, shape, 19)
    with dlblas.pinned(OP, name):
        dx, dweight, dbias = dlblas.layer_norm_backward(dy, x, weight if weighted else None)
    x64, bias64 = x.astype(np.float64), np.zeros(19)
    weight64 = weight.astype(np.float64) if weighted else np.ones(19)

    def loss() -> Any:
        return np.sum(forward(x64, weight64, bias64) * dy)

    for got, at in ((dx, x64), (dweight, weight64), (dbias, bias64)):
        np.testing.assert_allclose(got, differences(loss, at), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", NAMES[:-1])
@pytest.mark.parametrize("width", [5, 300, 9001])
@pytest.mark.parametrize("mean", [0, 1e4, -1e6])
def test_a_large_mean_costs_no_digits(name: str, width: int, mean: float) -> None:
    rng = np.random.default_rng(3)
    x = (mean + rng.uniform(-1, 1, (70, width))).astype(np.float32)
    dy, weight = draws(x.shape, width)
    with dlblas.pinned(OP, name):
        results = dlblas.layer_norm_backward(dy, x, weight)
    assert dlblas.verify(OP, (dy, x, weight), results).ok
    x64 = x.astype(np.float64)
    difference = x64 - x64.mean(-1, keepdims=True)
    normed = difference / np.sqrt((difference**2).mean(-1, keepdims=True) + EPS)
    terms = dy * normed
    assert np.abs(results[1] - terms.sum(0)).max() < 4e-6 * np.abs(terms).sum(0).max()


@pytest.mark.parametrize("name", NAMES)
def test_a_gradient_without_its_mean_is_refused(name: str) -> None:
    """The oracle refuses a dx that still contains a part of its row mean."""
    dy, x, weight = draws((6, 80), (6, 80), 80)
    with dlblas.pinned(OP, name):
        dx, dweight, dbias = dlblas.layer_norm_backward(dy, x, weight)
    g = dy * weight
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + EPS)
    spoilt = (dx + 1e-3 * rstd * g.mean(-1, keepdims=True)).astype(np.float32)
    assert dlblas.verify(OP, (dy, x, weight), (dx, dweight, dbias)).ok
    assert not dlblas.verify(OP, (dy, x, weight), (spoilt, dweight, dbias)).ok
    short = dweight - dy[-1] * ((x - x.mean(-1, keepdims=True)) * rstd)[-1]  # a row left out
    assert not dlblas.verify(OP, (dy, x, weight), (dx, short, dbias)).ok
    assert not dlblas.verify(OP, (dy, x, weight), (dx, dweight, dbias - dy[0])).ok


@pytest.mark.parametrize("rows", [1, 9, 130, 700, 20000])
@pytest.mark.parametrize("name", NAMES[:-1])
def test_the_bits_are_the_same_on_any_number_of_threads(name: str, rows: int) -> None:
    dy, x, weight = draws((rows, 40), (rows, 40), 40)
    seen = set()
    with dlblas.pinned(OP, name):
        for threads in (1, 2, 3, 8):
            out = (np.full((rows, 40), np.nan, np.float32), *np.full((2, 40), np.nan, np.float32))
            abi.call(OP, {"dy": dy, "x": x, "weight": weight}, out, threads)
            assert not any(np.isnan(a).any() for a in out)
            seen.add(b"".join(a.tobytes() for a in out))
    assert len(seen) == 1


@pytest.mark.parametrize("name", NAMES)
def test_no_rows_have_gradients_of_zero(name: str) -> None:
    nothing, weight = np.zeros((0, 24), np.float32), np.ones(24, np.float32)
    sums = np.full((2, 24), np.nan, np.float32)
    with dlblas.pinned(OP, name):
        dlblas.layer_norm_backward(nothing, nothing, weight, out=(nothing.copy(), *sums))
    np.testing.assert_array_equal(sums, np.zeros((2, 24), np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_a_nan_stays_in_its_row_of_dx(name: str) -> None:
    dy, x, weight = draws((5, 40), (5, 40), 40)
    x[2, 7] = np.nan
    with dlblas.pinned(OP, name):
        dx, dweight, dbias = dlblas.layer_norm_backward(dy, x, weight)
    assert np.isnan(dx[2]).all() and np.isfinite(np.delete(dx, 2, axis=0)).all()
    assert np.isnan(dweight).all() and np.isfinite(dbias).all()


# ---- torch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("given", ["both", "weight", "bias", "none", "mixed"])
def test_as_torchs_autograd(dtype: str, given: str) -> None:
    torch = pytest.importorskip("torch")
    import dlblas.torch

    torch.manual_seed(2)
    kind = getattr(torch, dtype)
    x = torch.randn(2, 9, 300).to(kind).requires_grad_()
    weight, bias = (torch.randn(300).to(kind) for _ in range(2))
    if given == "mixed":  # a weight in f32 beside rows of few bits
        weight = weight.float()
    weight = None if given in ("bias", "none") else weight.requires_grad_()
    bias = None if given in ("weight", "none") else bias.requires_grad_()
    dy = torch.randn(2, 9, 300).to(kind)
    leaves = [t for t in (x, weight, bias) if t is not None]
    wide = [t.detach().double().requires_grad_() for t in leaves]
    named = iter(wide)
    x64, w64, b64 = (next(named) if t is not None else None for t in (x, weight, bias))
    want = torch.nn.functional.layer_norm(x64, (300,), w64, b64)
    expected = torch.autograd.grad(want, wide, dy.double())
    off = {"float32": 4e-6, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    for call in (dlblas.layer_norm, torch.ops.dlblas.layer_norm):
        got = torch.autograd.grad(call(x, weight, bias), leaves, dy)
        for ours, theirs, leaf in zip(got, expected, leaves, strict=True):
            assert ours.dtype is leaf.dtype and ours.shape == leaf.shape
            assert ((ours.double() - theirs).abs() <= off * (1 + theirs.abs())).all()


def test_a_weight_that_needs_no_gradient_gets_none() -> None:
    torch = pytest.importorskip("torch")
    x, weight, bias = torch.randn(4, 30, requires_grad=True), torch.ones(30), torch.zeros(30)
    dlblas.layer_norm(x, weight, bias).sum().backward()
    assert x.grad is not None and weight.grad is None and bias.grad is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("used", ["both", "y", "residual_out"])
def test_add_layer_norm_as_torchs_autograd(dtype: str, used: str) -> None:
    """The sum's own gradient joins the norm's, in x's and in residual's; eager and compiled."""
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)

    def formula(x: Any, residual: Any, weight: Any, bias: Any) -> Any:
        h = x + residual
        h = h + (h.to(kind).double() - h).detach()  # rounds as the operator does
        return torch.nn.functional.layer_norm(h, h.shape[-1:], weight, bias), h

    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *given: dlblas.add_layer_norm(*given), fullgraph=True, backend="aot_eager"
    )
    places = {"both": (0, 1), "y": (0,), "residual_out": (1,)}[used]
    for call in (dlblas.add_layer_norm, compiled):
        shapes = ((7, 65), (7, 65), (65,), (65,))
        leaves = [torch.randn(s).to(kind).requires_grad_() for s in shapes]
        wide = [t.detach().double().requires_grad_() for t in leaves]
        made, expected = call(*leaves), formula(*wide)
        ways = [torch.randn(7, 65).to(kind) for _ in places]
        got = torch.autograd.grad([made[i] for i in places], leaves, ways, allow_unused=True)
        want = torch.autograd.grad(
            [expected[i] for i in places], wide, [w.double() for w in ways], allow_unused=True
        )
        for g, w in zip(got, want, strict=True):
            near = (
                {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 2e-2, "atol": 3e-2}
            )
            if w is None:
                assert g is None or not g.any()
            else:
                torch.testing.assert_close(g.double(), w, **near)
    with pytest.raises(dlblas.errors.UnsupportedError, match="gradient is not differentiable"):
        x, residual = (torch.randn(3, 8, requires_grad=True) for _ in range(2))
        y, _ = dlblas.add_layer_norm(x, residual)
        (dx,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        torch.autograd.grad(dx.sum(), x)
