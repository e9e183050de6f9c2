"""Gradients of routers, of the moves of rows to their experts and back, of fused_moe, l2_norm and
swiglu_oai_and_mul: against torch's autograd of the formulas in f64.

Read next: ../ops/moe/gradient.py, tests/torch_gradients.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from torch_gradients import every_device  # noqa: E402, F401

DTYPES = (torch.float32, torch.bfloat16)
NEAR = {torch.float32: {"rtol": 2e-5, "atol": 2e-6}, torch.bfloat16: {"rtol": 1e-2, "atol": 1e-2}}
Formula = Callable[..., Any]


def same(call: Formula, formula: Formula, *leaves: Any, twice: bool = True) -> None:
    """First and second derivatives of ``call(*leaves)`` in any layout of the arriving gradient;
    ``formula`` computes in f64."""
    near = NEAR[leaves[0].dtype]
    ours = [t.detach().requires_grad_() for t in leaves]
    wide = [t.detach().double().requires_grad_() for t in leaves]
    got, want = call(*ours), formula(*wide)
    torch.testing.assert_close(got.double(), want, **near)
    dy = torch.randn_like(want)
    turned = dy.to(got.dtype).transpose(0, -1).contiguous().transpose(0, -1).requires_grad_()
    dy = turned.detach().double().requires_grad_()
    first = torch.autograd.grad(got, ours, turned, create_graph=twice)
    expected = torch.autograd.grad(want, wide, dy, create_graph=twice)
    for g, e, leaf in zip(first, expected, leaves, strict=True):
        assert g.dtype == leaf.dtype and g.shape == leaf.shape
        torch.testing.assert_close(g.double(), e, **near)
    if not twice or leaves[0].dtype != torch.float32:
        return
    again = torch.autograd.grad(sum(g.sin().sum() for g in first), [*ours, turned],
                                allow_unused=True)  # fmt: skip
    wanted = torch.autograd.grad(sum(g.sin().sum() for g in expected), [*wide, dy],
                                 allow_unused=True)  # fmt: skip
    for g, e in zip(again, wanted, strict=True):
        if g is None or e is None:  # a linear operator has none in its input
            assert all(t is None or not t.any() for t in (g, e))
        else:
            torch.testing.assert_close(g.double(), e, rtol=1e-4, atol=1e-5)


def weights_of(logits: Any, ids: Any, scoring: str, renormalize: bool) -> Any:
    scores = logits.sigmoid() if scoring == "sigmoid" else logits.softmax(-1)
    chosen = scores.gather(-1, ids.long())
    return chosen / chosen.sum(-1, keepdim=True) if renormalize else chosen


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_routers(scoring: str, renormalize: bool, dtype: Any, device: str) -> None:
    logits = torch.randn(2, 5, 12, device=device).to(dtype) * 3
    logits[0, 0, 3] = logits[0, 0, 4]  # a tie
    route = getattr(dlblas, f"topk_{scoring}")
    ids = route(logits, 4, renormalize)[1]
    same(
        lambda x: route(x, 4, renormalize)[0],
        lambda x: weights_of(x, ids, scoring, renormalize),
        logits,
    )


@pytest.mark.parametrize("shared", [0, 2])
@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_routers_of_groups(scoring: str, renormalize: bool, shared: int, device: str) -> None:
    """Experts that all tokens share weigh Σ weights / scale; bias has no gradient."""
    logits, bias = torch.randn(6, 16, device=device), torch.randn(16, device=device)

    def route(x: Any, bias: Any = bias) -> Any:
        return dlblas.grouped_topk(
            x, bias, 3, 4, 2, renormalize, 2.5, scoring=scoring, num_fused_shared_experts=shared
        )

    ids = route(logits)[1][:, :3]

    def formula(x: Any) -> Any:
        w = 2.5 * weights_of(x, ids, scoring, renormalize)
        return torch.cat((w, (w.sum(-1, keepdim=True) / 2.5).expand(-1, shared)), -1)

    same(lambda x: route(x)[0], formula, logits)
    learned = bias.clone().requires_grad_()
    x = logits.clone().requires_grad_()
    route(x, learned)[0].sum().backward()
    assert learned.grad is None and x.grad is not None


def test_weights_that_underflow(device: str) -> None:
    """An expert of weight 0 has a gradient of 0, not NaN."""
    x = torch.tensor([[0.0, -300.0, 5.0, -torch.inf]], device=device, requires_grad=True)
    for route in (dlblas.topk_softmax, dlblas.topk_sigmoid):
        w, ids = route(x, 3)
        assert ids.tolist() == [[2, 0, 1]]
        (dx,) = torch.autograd.grad(w[:, 0].sum(), x)
        assert dx.isfinite().all() and dx[0, 2] > 0 and not dx[0, 1].any() and not dx[0, 3].any()


def choices(device: str) -> Any:
    """Experts of five tokens: some of no expert here, one of them unused."""
    return torch.tensor([[3, 0], [-1, 1], [0, 1], [-1, -1], [1, 0]], device=device)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_to_experts_and_back(dtype: Any, device: str) -> None:
    ids = choices(device)
    inverse = dlblas.moe_permute(torch.zeros(5, 1, device=device), ids, 4)[2].long()
    used = int((inverse >= 0).sum())
    token = torch.empty(used, dtype=torch.long, device=device)
    t, j = (inverse >= 0).nonzero(as_tuple=True)
    token[inverse[t, j]] = t
    x = torch.randn(5, 6, device=device).to(dtype)
    same(lambda x: dlblas.moe_permute(x, ids, 4)[0][:used], lambda x: x[token], x)

    rows = torch.randn(used, 6, device=device).to(dtype)
    weights = torch.rand(5, 2, device=device).to(dtype)

    def gathered(rows: Any, weights: Any) -> Any:
        padded = torch.cat((rows, rows.new_zeros(1, 6)))  # row −1
        return (padded[inverse] * weights[..., None]).sum(1)

    same(lambda r, w: dlblas.moe_unpermute(r, inverse, w), gathered, rows, weights)
    outputs = torch.randn(2, 5, 3, 6, device=device).to(dtype)
    same(dlblas.moe_sum, lambda x: x.sum(-2), outputs)


def test_moves_keep_what_they_must(device: str) -> None:
    """moe_permute keeps the positions alone, moe_sum nothing."""
    x = torch.randn(5, 6, device=device, requires_grad=True)
    outputs = torch.randn(5, 2, 6, device=device, requires_grad=True)
    kept: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        inverse = dlblas.moe_permute(x, choices(device), 4)[2]
        dlblas.moe_sum(outputs)
    assert [t.data_ptr() for t in kept] == [inverse.data_ptr()]


def experts_of(x: Any, w13: Any, w2: Any, weights: Any, ids: Any) -> Any:
    """Every expert of every token, and 0 times those that were not chosen."""
    gate, up = torch.einsum("tc,efc->tef", x, w13).chunk(2, -1)
    each = torch.einsum("tef,ecf->tec", torch.nn.functional.silu(gate) * up, w2)
    chosen = torch.zeros(*each.shape[:2], dtype=x.dtype, device=x.device)
    there = (ids >= 0).to(x.dtype)
    chosen = chosen.scatter_add(1, ids.clamp(min=0), weights * there)
    return torch.einsum("tec,te->tc", each, chosen)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_moe(dtype: Any, device: str) -> None:
    """Trains: x, both weights of the experts and the routers' weights; also compiled."""
    ids = choices(device)
    shapes = (5, 8), (4, 12, 8), (4, 8, 6), (5, 2)
    x, w13, w2, weights = ((torch.randn(s, device=device) / 2).to(dtype) for s in shapes)
    same(
        lambda *given: dlblas.fused_moe(*given, ids),
        lambda *given: experts_of(*given, ids),
        x, w13, w2, weights,
        twice=False,
    )  # fmt: skip
    for more in ({"out": torch.empty_like(x)}, {"renormalize": True, "expert_offset": 1}):
        given = [t.clone().requires_grad_() for t in (x, w13, w2, weights)]
        if "out" in more:
            with pytest.raises(dlblas.errors.ArgumentError, match="fused_moe: x requires grad"):
                dlblas.fused_moe(*given, ids, **more)
        else:
            y = dlblas.fused_moe(*given, ids, **more)
            assert all(g.isfinite().all() for g in torch.autograd.grad(y[:3].sum(), given))


def test_a_router_and_its_experts_train_in_one_graph(device: str) -> None:
    torch._dynamo.reset()
    x = torch.randn(6, 8, device=device)
    leaves = [torch.randn(s, device=device).div(2).requires_grad_()
              for s in ((4, 8), (4, 12, 8), (4, 8, 6))]  # fmt: skip

    def layer(x: Any, router: Any, w13: Any, w2: Any) -> Any:
        weights, ids = dlblas.topk_softmax(x @ router.t(), 2)
        return dlblas.fused_moe(x, w13, w2, weights, ids)

    eager = torch.autograd.grad(layer(x, *leaves).square().sum(), leaves)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    made = torch.autograd.grad(compiled(x, *leaves).square().sum(), leaves)
    torch.testing.assert_close(made, eager, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_l2_norm(dtype: Any, device: str) -> None:
    x = torch.randn(3, 4, 33, device=device).to(dtype)
    norms = x.double().norm(dim=-1).flatten().sort().values
    for dim, eps in ((-1, 1e-12), (-1, float(norms[5] + norms[6]) / 2), (1, 1e-12)):
        same(
            lambda x, dim=dim, eps=eps: dlblas.l2_norm(x, eps, dim=dim),
            lambda x, dim=dim, eps=eps: x / x.norm(dim=dim, keepdim=True).clamp(min=eps),
            x,
        )
    large = (torch.randn(2, 9, device=device) * 1e30).requires_grad_()  # squares overflow f32
    (dx,) = torch.autograd.grad(dlblas.l2_norm(large)[0, 0], large)
    wide = large.detach().double().requires_grad_()
    (want,) = torch.autograd.grad(torch.nn.functional.normalize(wide, dim=-1)[0, 0], wide)
    torch.testing.assert_close(dx.double() * 1e30, want * 1e30, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [True, False])
def test_swiglu_oai_and_mul(interleaved: bool, dtype: Any, device: str) -> None:
    x = (torch.randn(7, 3, 10, device=device) * 4).to(dtype)
    x[x.abs().frac() == 0] += 0.5  # releases of torch differ at the limit

    def formula(x: Any, alpha: float = 1.702, limit: float = 7.0) -> Any:
        gate, up = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        g, u = gate.clamp(max=limit), up.clamp(-limit, limit)
        return (u + 1) * g * torch.sigmoid(alpha * g)

    for alpha, limit in ((1.702, 7.0), (0.5, 2.0), (1.0, float("inf"))):
        same(
            lambda x, a=alpha, b=limit: dlblas.swiglu_oai_and_mul(x, a, b, interleaved),
            lambda x, a=alpha, b=limit: formula(x, a, b),
            x,
        )
