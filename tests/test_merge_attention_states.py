"""merge_attention_states: merging attention over two sets of keys gives attention over both; states
without keys, NaN and infinities; its gradients; topk_sigmoid and moe_sum in torch.

Shapes and layouts are in ops/*/*/cases.json; this file covers what they cannot express. Read next:
ops/attention/merge_attention_states/merge_attention_states_ref.hpp.
"""

from __future__ import annotations

import math
from typing import Any

import dlblas
import pytest
from dlblas.errors import ShapeMismatchError

torch = pytest.importorskip("torch")

import dlblas.torch  # noqa: E402

INF, NAN = math.inf, math.nan


def attention(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Attention in f64: o [T, H, D] and lse [T, H]."""
    scores = torch.einsum("thd,lhd->thl", q, k)
    return torch.einsum("thl,lhd->thd", scores.softmax(-1), v), scores.logsumexp(-1)


def test_two_halves_are_the_whole() -> None:
    torch.manual_seed(1)
    q, k, v = (torch.randn(n, 4, 40).double() for n in (7, 50, 50))
    states = [x.float() for half in (slice(0, 13), slice(13, 50))
              for x in attention(q, k[half], v[half])]  # fmt: skip
    o, lse = dlblas.merge_attention_states(*states)
    for got, want in zip((o, lse), attention(q, k, v), strict=True):
        torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-6)


def merged(first: float, second: float, o1: float = 1.0, o2: float = 3.0) -> tuple[float, float]:
    o = [torch.full((1, 24), value) for value in (o1, o2)]
    got, lse = dlblas.merge_attention_states(
        o[0], torch.tensor([first]), o[1], torch.tensor([second])
    )
    assert (got == got[0, 0]).all() or got.isnan().all()
    return float(got[0, 0]), float(lse[0])


def test_states_without_keys() -> None:
    assert merged(-INF, -INF, NAN, NAN) == (0.0, -INF)
    assert merged(-INF, 2.5, NAN, 3.0) == (3.0, 2.5)
    assert merged(2.5, -INF, 1.0, INF) == (1.0, 2.5)
    assert merged(200.0, -200.0, 1.0, NAN) == (1.0, 200.0), "a weight below f32's smallest"


def test_nan_and_infinities() -> None:
    for lses in ((NAN, 0.0), (0.0, NAN), (NAN, -INF), (INF, 0.0), (INF, INF)):
        o, lse = merged(*lses)
        assert math.isnan(o) and math.isnan(lse), lses
    o, lse = merged(0.0, 0.0, NAN, 3.0)
    assert math.isnan(o) and lse == pytest.approx(math.log(2))
    assert merged(1e4, 1e4) == (2.0, pytest.approx(1e4 + math.log(2)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_row_alone(dtype: Any) -> None:
    o1, o2 = (torch.randn(48).to(dtype)[::2] for _ in range(2))
    lse1, lse2 = torch.tensor(0.3), torch.tensor(-1.0)
    given = o1, lse1, o2, lse2
    o, lse = dlblas.merge_attention_states(*given)
    rows = dlblas.merge_attention_states(*(x[None] for x in given))
    assert o.shape == (24,) and lse.shape == ()
    assert torch.equal(o, rows[0][0]) and torch.equal(lse, rows[1][0])
    out = torch.empty_like(o), torch.empty(())
    assert dlblas.merge_attention_states(*given, out=out) is out
    assert torch.equal(out[0], o) and torch.equal(out[1], lse)
    compiled = torch.compile(dlblas.merge_attention_states, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(*given)[1], lse)
    with pytest.raises(ShapeMismatchError, match="merge_attention_states: "):
        dlblas.merge_attention_states(o1, lse1[None], o2, lse2)


def in_torch(o1: Any, lse1: Any, o2: Any, lse2: Any) -> tuple[Any, Any]:
    lse = torch.logaddexp(lse1, lse2)
    first, second = (torch.exp(x - lse)[..., None] for x in (lse1, lse2))
    return first * o1 + second * o2, lse


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("used", ["o", "lse", "both"])
def test_gradients_are_torchs(dtype: Any, used: str) -> None:
    draw = torch.Generator().manual_seed(5)
    shapes = ((2, 5, 3, 16), (2, 5, 3)) * 2
    given = [torch.randn(s, generator=draw) for s in shapes]
    given[1] *= 8
    given = [x.to(dtype) if x.dim() == 4 else x for x in given]
    weights = torch.randn(shapes[0], generator=draw), torch.randn(shapes[1], generator=draw)
    kept = {"o": slice(0, 1), "lse": slice(1, 2), "both": slice(0, 2)}[used]
    grads = []
    for call, kind in ((dlblas.merge_attention_states, None), (in_torch, torch.float64)):
        own = [x.to(kind or x.dtype, copy=True).requires_grad_() for x in given]
        made = zip(call(*own)[kept], weights[kept], strict=True)
        sum((x.double() * w).sum() for x, w in made).backward()
        grads.append([x.grad for x in own])
    bound = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    for got, want in zip(*grads, strict=True):
        if want is None:
            assert got is None or not got.any()
        else:
            torch.testing.assert_close(got.double(), want, rtol=bound, atol=bound)


def test_gradients_of_states_that_are_ignored_are_0() -> None:
    """Whatever their o holds; and twice differentiable, of one row alone, and inside a graph."""
    o1, o2 = torch.full((4, 8), NAN), torch.randn(4, 8)
    lse1, lse2 = torch.tensor([-INF, -INF, -300.0, -INF]), torch.tensor([0.5, 0.0, 300.0, -INF])
    own = [x.requires_grad_() for x in (o1, lse1, o2, lse2)]
    weights = torch.randn(4, 8)
    o, lse = dlblas.merge_attention_states(*own)
    grads = torch.autograd.grad([o, lse], own, [weights, torch.ones(4)])
    assert not grads[0].any() and not grads[1].any()
    assert torch.equal(grads[2][:3], weights[:3]) and not grads[2][3].any()
    assert grads[3].tolist() == [1.0, 1.0, 1.0, 0.0]


def test_second_derivatives_and_graphs_of_gradients() -> None:
    given = [torch.randn(8), torch.tensor(0.3), torch.randn(8), torch.tensor(-0.4)]
    twice = []
    for call, kind in ((dlblas.merge_attention_states, torch.float32), (in_torch, torch.float64)):
        own = [x.to(kind, copy=True).requires_grad_() for x in given]
        o, lse = call(*own)
        first = torch.autograd.grad((o.sin().sum() + lse.cos()), own, create_graph=True)
        twice.append(torch.autograd.grad(sum(g.square().sum() for g in first), own))
    for got, want in zip(*twice, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-5)
    rows = [x[None].clone().requires_grad_() for x in given]
    compiled = torch.compile(dlblas.merge_attention_states, backend="aot_eager", fullgraph=True)
    for call in (compiled, dlblas.merge_attention_states):
        call(*rows)[0].sum().backward()
    one = [x.clone().requires_grad_() for x in given]
    dlblas.merge_attention_states(*one)[0].sum().backward()
    for row, alone in zip(rows, one, strict=True):
        torch.testing.assert_close(row.grad[0], 2 * alone.grad)


def test_sigmoids_that_underflow_are_renormalised() -> None:
    x = torch.tensor([[-200.0, -201.0, -1000.0], [30.0, 40.0, 20.0], [-INF, -INF, -INF]])
    weights, ids = dlblas.topk_sigmoid(x, 2)
    e = math.exp(-1)
    torch.testing.assert_close(weights[0], torch.tensor([1 / (1 + e), e / (1 + e)]))
    torch.testing.assert_close(weights[1], torch.tensor([0.5, 0.5]))
    assert weights[2].isnan().all()
    assert ids.tolist() == [[0, 1], [1, 0], [0, 1]]
    weights, _ = dlblas.topk_sigmoid(torch.randn(9, 40, generator=torch.Generator()), 6, False)
    assert ((weights > 0) & (weights < 1)).all()


def test_in_torch() -> None:
    torch.manual_seed(2)
    o, lse = torch.randn(2, 5, 3, 16), torch.randn(2, 5, 3)
    for call in (
        (torch.ops.dlblas.merge_attention_states, (o[0], lse[0], o[1], lse[1])),
        (
            torch.ops.dlblas.merge_attention_states,
            tuple(x.clone().requires_grad_() for x in (o[0], lse[0], o[1], lse[1])),
        ),
        (torch.ops.dlblas.topk_sigmoid, (torch.randn(2, 5, 48), 6, True)),
        (torch.ops.dlblas.moe_sum, (torch.randn(2, 5, 3, 16),)),
    ):
        assert set(torch.library.opcheck(call[0].default, call[1]).values()) == {"SUCCESS"}
    x = torch.randn(5, 16, 3).to(torch.bfloat16).mT
    want = x.double().sum(-2).bfloat16()
    torch.testing.assert_close(dlblas.moe_sum(x), want)
