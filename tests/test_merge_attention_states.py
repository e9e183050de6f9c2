"""merge_attention_states: merging attention over two sets of keys gives attention over both; states
without keys, NaN and infinities; topk_sigmoid and moe_sum in torch.

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
        (torch.ops.dlblas.topk_sigmoid, (torch.randn(2, 5, 48), 6, True)),
        (torch.ops.dlblas.moe_sum, (torch.randn(2, 5, 3, 16),)),
    ):
        assert set(torch.library.opcheck(call[0].default, call[1]).values()) == {"SUCCESS"}
    x = torch.randn(5, 16, 3).to(torch.bfloat16).mT
    want = x.double().sum(-2).bfloat16()
    torch.testing.assert_close(dlblas.moe_sum(x), want)
