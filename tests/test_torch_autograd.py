"""Gradients on torch tensors: dlblas.x() and torch.ops.dlblas.x against the formula differentiated
by torch in f64, under a bound; finite differences; the same bits twice.

Every test runs on the CPU and, where there is one, on a GPU. Read next: tests/torch_gradients.py,
tests/test_torch_autograd_modes.py, ops/norm/rms_norm/rms_norm.py (AUTOGRAD).
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas.torch import _autograd  # noqa: E402
from torch_gradients import (  # noqa: E402
    DTYPES,
    OPS,
    WAYS,
    Case,
    assert_close,
    every_device,  # noqa: F401
    functions,
    grads_like,
    operators,
)


@WAYS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype, weight", [*itertools.product(DTYPES, ["f32"]), ("bf16", "bf16")])
@pytest.mark.parametrize("scalars", [(1e-5, 0.0, False), (1e-3, 1.0, False), (1e-6, 0.5, True)])
def test_gradients(way, op, dtype, weight, scalars, device) -> None:
    for shape in [(1, 64), (37, 129), (2, 3, 1000), (3, 4097), (5,)]:
        case = Case(op, device, dtype, weight, shape, scalars)
        grads = grads_like(case.call(way))
        assert_close(case, case.gradients(way, grads), grads)


def test_the_bound_sees_a_wrong_gradient(device) -> None:
    """A forgotten residual gradient, a gradient 2 % too large and a row too few exceed it."""
    case = Case("add_rms_norm", device, "bf16")
    grads = grads_like(case.call(functions))
    right = case.gradients(functions, grads)
    for wrong in (
        case.gradients(functions, [grads[0], torch.zeros_like(grads[1])]),
        case.gradients(functions, [grads[0] * 1.02, grads[1]]),
        (*right[:2], right[2] - grads[0][0]),
    ):
        with pytest.raises(AssertionError):
            assert_close(case, wrong, grads)


VIEWS = {
    "row_strided": ((6, 160), lambda t: t[:, 3:75]),
    "other_rows": ((12, 72), lambda t: t[::2]),
    "transposed": ((72, 6), lambda t: t.t()),
    "broadcast": ((1, 72), lambda t: t.expand(6, 72)),
    "permuted": ((3, 4, 72), lambda t: t.transpose(0, 1)),
}


@WAYS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", VIEWS)
def test_views_of_leaves(way, op, layout, device) -> None:
    shape, view = VIEWS[layout]
    for dtype in ("f32", "bf16"):
        case = Case(op, device, dtype, "f32", shape, view=view)
        try:
            grads = grads_like(case.call(way))
        except (dlblas.errors.UnsupportedError, RuntimeError) as refusal:
            if device == "cpu" or "contiguous" not in str(refusal):
                raise
            pytest.skip(f"refused in words: {refusal}".splitlines()[0])
        assert_close(case, case.gradients(way, grads), grads)


GRADS = {
    "expanded": lambda r: torch.ones((), device=r.device, dtype=r.dtype).expand(r.shape),
    "rows_expanded": lambda r: torch.randn(r.shape[-1], device=r.device).to(r.dtype).expand_as(r),
    "transposed": lambda r: torch.randn(r.shape[::-1], device=r.device).to(r.dtype).t(),
    "row_strided": lambda r: torch.randn(r.shape[0], 2 * r.shape[1], device=r.device).to(r.dtype)[
        :, 1 : 1 + r.shape[1]
    ],
}


@WAYS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", GRADS)
def test_gradients_that_arrive_in_other_layouts(way, op, layout, device) -> None:
    for dtype in ("f32", "f16"):
        case = Case(op, device, dtype)
        grads = [GRADS[layout](r) for r in case.call(way)]
        assert_close(case, case.gradients(way, grads), grads)


def test_rows_at_one_stride_are_not_copied(device) -> None:
    """The halves of a concatenation, and slices of it, pass as views; others are copied."""
    plain = torch.randn(4, 6, 64, device=device)
    views = [plain, plain[:, :, :32], plain.flatten(0, 1)[::2], plain[0, 0]]
    assert all(_autograd._has_plain_rows(v) for v in views)
    views = [plain[:, :4], plain.transpose(0, 1), plain[..., ::2], plain[:1].expand(4, 6, 64),
             plain.new_ones(()).expand(4, 6, 64), plain[0, 0, ::2]]  # fmt: skip
    assert not any(_autograd._has_plain_rows(v) for v in views)


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_sum_and_backward(way, op, device) -> None:
    """The usual end of a graph: .sum() sends an expanded gradient, and .grad is filled."""
    case = Case(op, device)
    results = case.call(way)
    sum(r.sum() for r in results).backward()
    grads = [torch.ones_like(r) for r in results]
    assert_close(case, [leaf.grad for leaf in case.leaves()], grads)
    addresses = {leaf.grad.data_ptr() for leaf in case.leaves()}
    assert len(addresses) == len(case.leaves())  # x's and residual's are equal, and not one tensor


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_no_rows(way, op, device) -> None:
    case = Case(op, device, shape=(0, 64))
    gradients = case.gradients(way, grads_like(case.call(way)))
    assert [tuple(g.shape) for g in gradients] == [tuple(t.shape) for t in case.leaves()]
    assert not gradients[-1].any()


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_the_same_bits_twice(way, op, device) -> None:
    case = Case(op, device, "bf16", "f32", (513, 1024))
    grads = grads_like(case.call(way))
    first = case.gradients(way, grads)
    for _ in range(3):
        again = case.gradients(way, grads)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("op", OPS)
def test_both_ways_give_the_same_bits(op, device) -> None:
    case = Case(op, device, "f16", "f32", (33, 200), (1e-4, 0.25, True))
    grads = grads_like(case.call(functions))
    for a, b in zip(
        case.gradients(functions, grads), case.gradients(operators, grads), strict=True
    ):
        assert torch.equal(a, b)


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_an_unused_result(way, op, device) -> None:
    """Each result used alone, and each input alone requiring grad."""
    case = Case(op, device)
    for used in range(len(case.call(way))):
        results = case.call(way)
        grads = [torch.zeros_like(r) for r in results]
        grads[used] = torch.randn_like(results[used])
        alone = torch.autograd.grad(
            results[used], case.leaves(), grads[used], allow_unused=True, materialize_grads=True
        )
        assert_close(case, alone, grads)
    for one in case.leaves():
        for leaf in case.leaves():
            leaf.requires_grad_(leaf is one)
        results = case.call(way)
        assert all(r.requires_grad for r in results)
        sum(r.sum() for r in results).backward()
        assert [leaf.grad is not None for leaf in case.leaves()] == [
            leaf is one for leaf in case.leaves()
        ]
        one.grad = None


@WAYS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("scalars", [(1e-5, 0.0, False), (1e-2, 1.0, False)])
def test_finite_differences(way, op, scalars, device) -> None:
    """torch's own gradcheck. It requires f64, which no operator serves: the tensors are f64, the
    call is f32, and steps and tolerances are f32's. It also checks undefined gradients and a second
    run."""

    def call(*tensors: Any) -> Any:
        results = way(op)(*(t.float() for t in tensors), *scalars)
        return tuple(r.double() for r in (results if isinstance(results, tuple) else (results,)))

    x, residual = torch.randn(2, 3, 8, device=device, dtype=torch.float64).unbind()
    weight = torch.randn(8, device=device, dtype=torch.float64)
    inputs = [x, weight] + ([residual] if op == "add_rms_norm" else [])
    torch.autograd.gradcheck(
        call, [t.clone().requires_grad_() for t in inputs],
        eps=2e-3, atol=1e-3, rtol=1e-3, nondet_tol=0.0, check_undefined_grad=True,
    )  # fmt: skip
