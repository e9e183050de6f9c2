"""Gradients of activation functions on torch tensors: dlblas.x() and torch.ops.dlblas.x against the
formula differentiated by torch in f64, in the layouts that tensors and gradients arrive in.

Every test runs on the CPU and, where there is one, on a GPU. Read next: torch_gradients.py,
ops/activation/silu_and_mul/silu_and_mul.py (AUTOGRAD).
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from torch_gradients import DTYPES, WAYS, U, every_device, operators  # noqa: E402, F401

FORMULAS = {
    "silu_and_mul": lambda gate, up: torch.nn.functional.silu(gate) * up,
    "gelu_and_mul": lambda gate, up: torch.nn.functional.gelu(gate) * up,
    "gelu_tanh_and_mul": lambda gate, up: torch.nn.functional.gelu(gate, approximate="tanh") * up,
}
OPS = sorted(FORMULAS)


def formula(op: str, x: Any) -> Any:
    return FORMULAS[op](*x.chunk(2, -1))


def function(way: Any, op: str) -> Any:
    return operators(op) if way is operators else getattr(dlblas, op)


def check(way: Any, op: str, x: Any, dy: Any) -> None:
    """Sixteen f32 roundings of a derivative of at most 1.2, and one rounding to the dtype."""
    x = x.detach().requires_grad_()
    (got,) = torch.autograd.grad(function(way, op)(x), x, dy)
    exact = x.detach().double().requires_grad_()
    (want,) = torch.autograd.grad(formula(op, exact), exact, dy.double())
    assert got.dtype is x.dtype and got.shape == x.shape
    gate, up = x.detach().double().abs().chunk(2, -1)
    size = dy.double().abs().repeat(*(1,) * (x.dim() - 1), 2) * torch.cat([up, gate], -1)
    bound = 20 * U * size + torch.finfo(x.dtype).eps / 2 * want.abs() + 1e-7
    excess = (got.double() - want).abs() / bound
    assert excess.max() <= 1, excess.max()


@WAYS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients(way: Any, op: str, dtype: str, device: str) -> None:
    for shape in [(1, 64), (37, 130), (2, 3, 1000), (3, 8194), (2, 40000)]:
        x = 3 * torch.randn(shape, device=device)
        dy = torch.randn(*shape[:-1], shape[-1] // 2, device=device)
        check(way, op, x.to(DTYPES[dtype]), dy.to(DTYPES[dtype]))


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_layouts_of_what_arrives(way: Any, op: str, device: str) -> None:
    x, dy = torch.randn(12, 160, device=device), torch.randn(12, 72, device=device)
    check(way, op, x[:, 3:147], dy)
    check(way, op, x[::2, :144], dy[::2])
    check(way, op, x[:, :144], torch.ones((), device=device).expand(12, 72))
    check(way, op, x[:, :144], torch.randn(72, 12, device=device).t())


@WAYS
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_of_two_tensors(way: Any, dtype: str, device: str) -> None:
    for shape in [(1, 64), (37, 130), (2, 3, 1000), (3, 8194)]:
        given = [3 * torch.randn(shape, device=device) for _ in range(3)]
        gate, up, dy = (x.to(DTYPES[dtype]).requires_grad_() for x in given)
        got = torch.autograd.grad(function(way, "silu_mul")(gate, up), (gate, up), dy)
        exact = [x.detach().double().requires_grad_() for x in (gate, up)]
        want = torch.autograd.grad(FORMULAS["silu_and_mul"](*exact), exact, dy.double())
        for grad, ref, other in zip(got, want, (up, gate), strict=True):
            size = dy.double().abs() * other.double().abs()
            bound = 20 * U * size + torch.finfo(grad.dtype).eps / 2 * ref.abs() + 1e-7
            assert grad.dtype is gate.dtype and grad.shape == shape
            assert ((grad.double() - ref).abs() <= bound).all()


PLAIN = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}


@WAYS
@pytest.mark.parametrize("op", sorted(PLAIN))
@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_activations(way: Any, op: str, dtype: str, device: str) -> None:
    """Values and gradients, for an x that is a strided view."""
    for shape in [(1, 64), (37, 131), (2, 3, 1000), (2, 40000)]:
        wide = 3 * torch.randn(*shape[:-1], shape[-1] + 3, device=device)
        x = wide.to(DTYPES[dtype])[..., 3:].detach().requires_grad_()
        exact = x.detach().double().requires_grad_()
        dy = torch.randn(shape, device=device).to(x.dtype)
        y, want = function(way, op)(x), PLAIN[op](exact)
        half = torch.finfo(x.dtype).eps / 2
        bound = 20 * U * exact.detach().abs() + half * want.detach().abs() + 1e-7
        assert ((y.detach().double() - want.detach()).abs() <= bound).all()
        (got,) = torch.autograd.grad(y, x, dy)
        (want,) = torch.autograd.grad(want, exact, dy.double())
        assert got.dtype is x.dtype and got.shape == x.shape
        bound = 30 * U * dy.double().abs() + half * want.abs() + 1e-7
        assert ((got.double() - want).abs() <= bound).all()


def test_a_wrong_gradient_is_outside_the_bound(device: str) -> None:
    x, dy = torch.randn(5, 64, device=device), torch.randn(5, 32, device=device)
    right = dlblas.silu_and_mul
    check(None, "silu_and_mul", x, dy)
    with pytest.raises(AssertionError), pytest.MonkeyPatch.context() as patch:
        patch.setattr(dlblas, "silu_and_mul", lambda x: right(x) * 1.0001)
        check(None, "silu_and_mul", x, dy)


@pytest.mark.parametrize("op", OPS)
def test_finite_differences(op: str, device: str) -> None:
    """The kernels are f32, so the steps and tolerances are those of f32."""
    torch.manual_seed(3)
    x = torch.randn(3, 8, device=device, requires_grad=True)
    dy = torch.randn(3, 4, device=device)
    (got,) = torch.autograd.grad(getattr(dlblas, op)(x), x, dy)
    for i in range(x.numel()):
        step = torch.zeros(x.numel(), device=device)
        step[i] = 2.0**-9
        step = step.reshape(x.shape)
        with torch.no_grad():
            up, down = (getattr(dlblas, op)(x + s * step).double() for s in (1, -1))
            slope = ((up - down) * dy.double()).sum() * 2.0**8
        assert abs(slope - got.reshape(-1)[i]) < 2e-3
