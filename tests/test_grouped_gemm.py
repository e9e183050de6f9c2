"""dlblas.grouped_gemm over rows in torch: gradients of both factors, and of rows outside every
group.

Every test runs on the CPU and, where there is one, on a GPU. Read next: ops/gemm/api.py,
ops/gemm/grouped_gemm_rows/gradient.py.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
from torch_gradients import every_device  # noqa: E402, F401

BARS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.2e-2}


def leave_nan_behind(count: int, like: Any) -> None:
    """Leaves NaN in the memory that the allocator hands out next."""
    made = [torch.full((count,), float("nan"), device=like.device) for _ in range(50)]
    del made


@pytest.mark.parametrize("dtype", BARS, ids=str)
@pytest.mark.parametrize("offsets", [(0, 2, 4), (1, 1, 5), (2, 3, 7), (0, 0, 0)], ids=str)
def test_gradients_of_all_rows(offsets: tuple[int, ...], dtype: Any, device: str) -> None:
    a = torch.randn(7, 24, device=device).to(dtype).requires_grad_()
    b = torch.randn(2, 16, 24, device=device).to(dtype).requires_grad_()
    ends = torch.tensor(offsets, device=device)
    first, last = offsets[0], offsets[-1]
    arrives = torch.randn(last - first, 16, device=device).to(dtype)
    wide = [t.detach().double().requires_grad_() for t in (a, b)]
    groups = enumerate(itertools.pairwise(offsets))
    parts = [wide[0][i:k] @ wide[1][e].T for e, (i, k) in groups]
    wanted = torch.autograd.grad(torch.cat(parts), wide, arrives.double(), allow_unused=True)
    compiled = torch.compile(dlblas.grouped_gemm, backend="aot_eager", fullgraph=True)
    for call in (dlblas.grouped_gemm, torch.ops.dlblas.grouped_gemm_rows, compiled):
        y = call(a, b, ends)
        leave_nan_behind(a.numel(), a)
        da, db = torch.autograd.grad(y[first:last], (a, b), arrives)
        assert not da[:first].any() and not da[last:].any()  # 0, and no NaN
        for got, want in zip((da, db), wanted, strict=True):
            off = (got.double() - want).norm()
            assert got.dtype is dtype and off <= BARS[dtype] * want.norm()


def test_a_strided_a(device: str) -> None:
    a = torch.randn(24, 9, device=device).T.requires_grad_()
    b, ends = torch.randn(2, 16, 24, device=device), torch.tensor([0, 3, 6], device=device)
    (da,) = torch.autograd.grad(dlblas.grouped_gemm(a, b, ends)[:6].sum(), [a])
    wanted = b.sum(1).repeat_interleave(3, 0)
    torch.testing.assert_close(da[:6], wanted, rtol=1e-4, atol=1e-5)
    assert not da[6:].any()


@pytest.mark.parametrize("kind", ["rows", "k"])
@pytest.mark.parametrize("bounds", [(1, 3, 3, 6), (0, 2, 4, 7), (7, 7, 7, 7)], ids=str)
def test_first_and_second_derivatives(kind: str, bounds: tuple[int, ...], device: str) -> None:
    """Against torch's autograd of the formula, in f64."""
    torch.manual_seed(2)
    offsets = torch.tensor(bounds, device=device)
    groups = list(itertools.pairwise(bounds))
    inside = torch.zeros(7, 1, device=device)
    inside[bounds[0] : bounds[-1]] = 1
    shapes = ((7, 5), (3, 4, 5)) if kind == "rows" else ((7, 4), (7, 5))

    def formula(a: Any, b: Any) -> Any:
        if kind == "k":
            return torch.stack([a[i:j].T @ b[i:j] for i, j in groups])
        parts = [a[i:j] @ b[e].T for e, (i, j) in enumerate(groups)]
        return torch.cat([a.new_zeros(bounds[0], 4), *parts, a.new_zeros(7 - bounds[-1], 4)])

    def call(a: Any, b: Any) -> Any:
        y = dlblas.grouped_gemm(a, b, offsets)
        return y if kind == "k" else y.where(inside > 0, torch.zeros((), device=device))

    ours = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
    theirs = [t.detach().double().requires_grad_() for t in ours]
    got, want = call(*ours), formula(*theirs)
    dy = torch.randn_like(got, requires_grad=True)
    wide = dy.detach().double().requires_grad_()
    once = torch.autograd.grad(got, ours, dy, create_graph=True)
    wanted = torch.autograd.grad(want, theirs, wide, create_graph=True)
    twice = torch.autograd.grad(sum(g.square().sum() for g in once), [*ours, dy])
    expected = torch.autograd.grad(sum(g.square().sum() for g in wanted), [*theirs, wide])
    for mine, its in zip((got, *once, *twice), (want, *wanted, *expected), strict=True):
        torch.testing.assert_close(mine.double(), its, rtol=1e-4, atol=1e-4)
