"""Shared by the tests of gradients: one call on leaves, the formula differentiated by torch in f64
with an error bound per element, and the two ways to call.

Read next: tests/test_torch_autograd.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402

U = 2.0**-24
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture(name="device", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def every_device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.manual_seed(7)
    return str(request.param)


# The two ways to call. Keyword-only arguments are positional for torch.
def functions(op: str) -> Callable[..., Any]:
    call = getattr(dlblas, op)
    tensors = 3 if op == "add_rms_norm" else 2

    def function(*args: Any) -> Any:
        eps, *rest = args[tensors:] or (1e-6,)
        names = ("weight_offset", "cast_before_weight")
        return call(*args[:tensors], eps, **dict(zip(names, rest, strict=False)))

    return function


def operators(op: str) -> Callable[..., Any]:
    return getattr(torch.ops.dlblas, op)


WAYS = pytest.mark.parametrize("way", [functions, operators], ids=["function", "operator"])


# ---- the formula, in f64 ------------------------------------------------------------------------


def rounded(t: Any, dtype: Any) -> Any:
    """Rounds; the derivative is 1, as the contract says."""
    return t + (t.detach().to(dtype).double() - t.detach())


class Case:
    """One call on leaves, its gradients, and the same in f64 with an error bound per element."""

    def __init__(
        self, op: str, device: str, dtype: str = "f32", weight: str | None = None,
        shape: tuple[int, ...] = (6, 72), scalars: tuple[Any, ...] = (1e-5, 0.0, False),
        view: Callable[[Any], Any] = lambda t: t,
    ) -> None:  # fmt: skip
        self.op, self.scalars, self.view = op, scalars, view
        self.dtype, self.weight_dtype = DTYPES[dtype], DTYPES[weight or dtype]
        count = 2 if op == "add_rms_norm" else 1
        self.tensors = [
            torch.randn(shape, device=device).to(self.dtype).requires_grad_() for _ in range(count)
        ]
        width = view(self.tensors[0]).shape[-1]
        self.weight = torch.randn(width, device=device).to(self.weight_dtype).requires_grad_()

    def leaves(self) -> list[Any]:
        return [*self.tensors, self.weight]

    def call(self, way: Callable[[str], Callable[..., Any]]) -> tuple[Any, ...]:
        x, *residual = (self.view(t) for t in self.tensors)
        results = way(self.op)(x, self.weight, *residual, *self.scalars)
        return results if isinstance(results, tuple) else (results,)

    def gradients(self, way: Any, grads: list[Any]) -> tuple[Any, ...]:
        return torch.autograd.grad(self.call(way), self.leaves(), grads)

    def results64(self, leaves: list[Any]) -> tuple[Any, ...]:
        *tensors, weight = leaves
        x, *residual = (self.view(t) for t in tensors)
        eps, offset, cast = self.scalars
        h = x
        if residual:  # the sum is made in f32, and then rounded
            total = (x.detach().float() + residual[0].detach().float()).to(self.dtype).double()
            h = x + residual[0]
            h = h + (total - h.detach())
        n = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)
        y = (rounded(n, self.dtype) if cast else n) * (weight + offset)
        return (y, h) if residual else (y,)

    def expect(self, grads: list[Any]) -> tuple[list[Any], list[Any]]:
        """Gradients of the leaves in f64, and the error allowed for each element."""
        leaves = [t.detach().double().requires_grad_() for t in self.leaves()]
        results = self.results64(leaves)
        values = torch.autograd.grad(results, leaves, [g.double() for g in grads])
        # Magnitudes of the summed terms: the bound of rms_norm_backward's oracle, in torch.
        eps, offset, cast = self.scalars
        x, *residual = (self.view(t.detach()) for t in leaves[:-1])
        h = self.results64([t.detach() for t in leaves])[-1] if residual else x
        r = torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)
        n, dy = (h * r).abs(), grads[0].double().abs()
        g = dy * (leaves[-1].detach().abs() + abs(offset))
        dx = r * (g + n * (g * n).mean(-1, keepdim=True))
        if residual:
            dx = dx + grads[1].double().abs()
        # Back through the view, where one element of the leaf may give several elements of x.
        leaf = leaves[0].detach().requires_grad_()
        (dx,) = torch.autograd.grad(self.view(leaf), leaf, dx)
        width, rows = h.shape[-1], h.numel() // max(1, h.shape[-1])
        terms = dx.numel() and self.view(self.tensors[0]).numel() / dx.numel()
        chain = width / 8 + 64
        unit, unit_w = (torch.finfo(t).eps / 2 for t in (self.dtype, self.weight_dtype))
        # A leaf that a view repeats sums its gradients in its dtype, after rounding to that dtype.
        bound_x = dx * (chain * U + unit * (1 if terms <= 1 else 4 * terms)) + 1e-7
        dw = (dy * n).reshape(-1, width).sum(0)
        # A normalised element next to a tie may round the other way.
        flips = 2 * unit if cast else 0.0
        bound_w = dw * ((chain + rows) * U + flips + unit_w) + 1e-7
        return list(values), [bound_x] * len(self.tensors) + [bound_w]


def assert_close(case: Case, gradients: Any, grads: list[Any]) -> None:
    for leaf, got, value, bound in zip(case.leaves(), gradients, *case.expect(grads), strict=True):
        assert got.dtype is leaf.dtype and got.shape == leaf.shape and got.device == leaf.device
        excess = (got.double() - value).abs() / bound
        assert excess.numel() == 0 or excess.max() <= 1, excess.max()


def grads_like(results: tuple[Any, ...]) -> list[Any]:
    return [torch.randn(r.shape, device=r.device).to(r.dtype) for r in results]


OPS = ["rms_norm", "add_rms_norm"]
