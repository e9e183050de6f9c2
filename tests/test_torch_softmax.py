"""Gradients of softmax and log_softmax on torch tensors against torch's formula in f64, computed
from the returned values; and l2_norm beside torch's normalize.

Every test runs on the CPU and, where there is one, on a GPU. Read next: torch_gradients.py,
ops/norm/softmax_backward/softmax_backward_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from torch_gradients import DTYPES, WAYS, U, every_device, operators  # noqa: E402, F401

OPS = ("softmax", "log_softmax")


def function(way: Any, op: str) -> Any:
    return operators(op) if way is operators else getattr(dlblas, op)


def gradient(op: str, dy: Any, y: Any) -> Any:
    if op == "softmax":
        return y * (dy - (dy * y).sum(-1, keepdim=True))
    return dy - y.exp() * dy.sum(-1, keepdim=True)


def check(way: Any, op: str, x: Any, dy: Any) -> None:
    """The sum has an error of some roundings of each term; then one rounding to the dtype."""
    x = x.detach().requires_grad_()
    y = function(way, op)(x)
    wide = getattr(torch, op)(x.detach().double(), -1)  # torch rounds more than once in f16
    torch.testing.assert_close(y.detach(), wide.to(x.dtype))
    (got,) = torch.autograd.grad(y, x, dy)
    y, dy = y.detach().double(), dy.double()
    want = gradient(op, dy, y)
    assert got.dtype is x.dtype and got.shape == x.shape
    share = y if op == "softmax" else y.exp()
    terms = dy.abs() * (y if op == "softmax" else torch.ones_like(y))
    size = share * terms.sum(-1, keepdim=True) + (share * dy.abs() if op == "softmax" else dy.abs())
    roundings = 30 if op == "softmax" else 30 + 2 * y.abs().clamp(max=100)
    bound = roundings * U * size + torch.finfo(x.dtype).eps / 2 * want.abs() + 1e-7
    excess = (got.double() - want).abs() / bound
    assert excess.max() <= 1, excess.max()


@WAYS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients(way: Any, op: str, dtype: str, device: str) -> None:
    for shape in [(1, 64), (37, 130), (2, 3, 1000), (3, 8194), (2, 40000), (5, 1)]:
        x, dy = 3 * torch.randn(shape, device=device), torch.randn(shape, device=device)
        check(way, op, x.to(DTYPES[dtype]), dy.to(DTYPES[dtype]))


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_layouts_of_what_arrives(way: Any, op: str, device: str) -> None:
    x, dy = torch.randn(12, 160, device=device), torch.randn(12, 144, device=device)
    check(way, op, x[:, 3:147], dy)
    check(way, op, x[::2, :144], dy[::2])
    check(way, op, x[:, :144], torch.ones((), device=device).expand(12, 144))
    check(way, op, x[:, :144], torch.randn(144, 12, device=device).t())


@pytest.mark.parametrize("op", OPS)
def test_a_wrong_gradient_is_outside_the_bound(op: str, device: str) -> None:
    x, dy = torch.randn(5, 64, device=device), torch.randn(5, 64, device=device)
    right = getattr(dlblas, op)
    check(None, op, x, dy)
    with pytest.raises(AssertionError), pytest.MonkeyPatch.context() as patch:
        patch.setattr(dlblas, op, lambda x: right(x * 1.0001))
        check(None, op, x, dy)


def test_log_softmax_far_below_the_maximum(device: str) -> None:
    x = torch.tensor([[0.0, -200.0, -1e30, -torch.inf], [3e38, -3e38, 0.0, 1.0]], device=device)
    torch.testing.assert_close(dlblas.log_softmax(x), torch.log_softmax(x.double(), -1).float())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("eps", [1e-12, 0.5, 1e-30, 0.0])
def test_l2_norm_is_normalize(eps: float, dtype: str, device: str) -> None:
    x = torch.randn(4, 3, 320, device=device).to(DTYPES[dtype])
    x[1] *= 1e-4
    x[2, 0] = 0 if eps else 1
    if dtype != "f16":
        x[3, 0] *= 1e25  # f32 cannot hold its squares
        x[3, 1] *= 1e-27
    wide = torch.nn.functional.normalize(x.double(), dim=-1, eps=eps)
    torch.testing.assert_close(dlblas.l2_norm(x, eps), wide.to(x.dtype))


@pytest.mark.parametrize("eps", [-1.0, float("nan"), 1e31])
def test_l2_norm_refuses_an_eps(eps: float, device: str) -> None:
    with pytest.raises(dlblas.errors.ArgumentError, match="eps is out of range; expected 0"):
        dlblas.l2_norm(torch.ones(2, 8, device=device), eps)


@pytest.mark.parametrize("dim", range(-3, 3))
@pytest.mark.parametrize("op", [*OPS, "l2_norm"])
def test_over_a_dimension(op: str, dim: int, device: str) -> None:
    """Like torch's: values, gradients, into ``out``, traced, and for NumPy arrays."""
    x, call = torch.randn(3, 4, 5, device=device), getattr(dlblas, op)
    theirs = torch.nn.functional.normalize if op == "l2_norm" else getattr(torch, op)
    want = theirs(x, dim=dim)
    got = call(x, dim=dim)
    torch.testing.assert_close(got, want)
    out = torch.empty_like(x)
    assert call(x, dim=dim, out=out) is out and torch.equal(out, got)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: call(x, dim=dim), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), got)
    array = x.cpu().numpy()
    torch.testing.assert_close(torch.from_numpy(call(array, dim=dim)), want.cpu())
    if op == "l2_norm":
        return
    assert torch.equal(call(x, dim), got)
    dy, leaf, other = torch.randn_like(x), x.clone().requires_grad_(), x.clone().requires_grad_()
    call(leaf, dim=dim).backward(dy)
    theirs(other, dim=dim).backward(dy)
    torch.testing.assert_close(leaf.grad, other.grad)


def test_a_dimension_that_is_none() -> None:
    x = torch.randn(3, 4, 5)
    with pytest.raises(dlblas.errors.ArgumentError, match="dim is out of range; expected -3 to 2"):
        dlblas.softmax(x, dim=3)
    with pytest.raises(TypeError, match="dim is of another type; expected an integer, got str"):
        dlblas.l2_norm(x, dim="rows")
    with pytest.raises(dlblas.errors.ArgumentTypeError, match="out cannot be turned"):
        dlblas.softmax(x, dim=1, out=x[0, 0])


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "l2_norm"])
@pytest.mark.parametrize("value", [None, [1.0], "ab", 3, object()])
def test_what_is_no_array_has_no_dimension(op: str, value: Any) -> None:
    for dim in (0, -1):
        with pytest.raises(dlblas.errors.ArgumentError) as caught:
            getattr(dlblas, op)(value, dim=dim)
        assert caught.value.argument == "x"


def test_a_sparse_place_is_refused_in_words() -> None:
    x = torch.randn(3, 3)
    for how in ({}, {"dim": 0}):
        with pytest.raises(dlblas.errors.ArgumentError, match="out is not a dense tensor"):
            dlblas.softmax(x, out=x.to_sparse(), **how)
    ids = torch.zeros(3, 2, dtype=torch.int32).to_sparse()
    with pytest.raises(
        dlblas.errors.ArgumentError, match=r"out\[1\] \(ids\) is not a dense tensor"
    ):
        dlblas.topk_softmax(x, 2, out=(torch.empty(3, 2), ids))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "dim"), [((300, 70), 0), ((33, 257, 5), 1), ((1000, 3), 0), ((4, 1), 0), ((1, 9), 0)]
)
def test_rows_down_the_columns_are_the_same_and_lie_as_x_does(
    shape: tuple[int, ...], dim: int, dtype: Any
) -> None:
    """A few rows at a time are transposed into contiguous copies (src/kernels/row_turned.hpp)."""
    x = torch.randn(shape).to(dtype)
    for run in (dlblas.softmax, dlblas.log_softmax, dlblas.l2_norm):
        y = run(x, dim=dim)
        assert y.is_contiguous()
        want = run(x.transpose(dim, -1).contiguous()).transpose(dim, -1)
        assert torch.equal(y, want)
        turned = torch.empty_like(x.transpose(dim, -1))
        assert torch.equal(run(x.transpose(dim, -1), out=turned).transpose(dim, -1), want)
