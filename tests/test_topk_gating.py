"""topk_gating: slots, tables that agree, the capacity, ties and special values, gradients.

Every test runs on the CPU and, where there is one, on a GPU. Read next:
ops/moe/topk_gating_slots/topk_gating_slots_ref.hpp, ops/moe/api.py.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
import numpy as np  # noqa: E402
from dlblas.kernels.topk_gating import TopKGatingFunc  # noqa: E402
from torch_gradients import DTYPES, every_device  # noqa: E402, F401


def capacity_of(tokens: int, experts: int, k: int, factor: float, least: int) -> int:
    """As torch computes it, in f32."""
    share = torch.tensor(tokens / experts, dtype=torch.float32)
    share = share * torch.tensor(factor * k, dtype=torch.float32)
    return min(max(int(torch.ceil(share)), least), tokens)


def formula(logits: Any, k: int, capacity: int, eps: float) -> tuple[Any, Any, Any, Any, Any]:
    """The contract in torch and f64, differentiable: results, and the experts of kept choices."""
    (tokens, experts), order = logits.shape, logits.detach().double()
    gates = torch.softmax(logits.double(), 1)
    chosen = torch.sort(order, dim=1, descending=True, stable=True).indices[:, :k].t()
    one_hot = torch.nn.functional.one_hot(chosen.reshape(-1), experts)
    place = ((one_hot.cumsum(0) - 1) * one_hot).sum(1).view(k, tokens)
    stays = place < capacity
    first = torch.nn.functional.one_hot(chosen[0], experts).double()
    l_aux = (gates.mean(0) * first.mean(0)).sum() * experts
    own = gates.gather(1, chosen.t()).t() * stays
    weights = own / own.sum(0).clamp(min=eps)
    slots = torch.where(stays, chosen * capacity + place, 0)
    select = torch.zeros(experts * capacity, dtype=torch.long, device=logits.device)
    token = torch.arange(tokens, device=logits.device).expand(k, tokens)
    select[slots[stays]] = token[stays]
    kept = torch.where(stays, chosen, -1)
    return l_aux, slots.reshape(-1).int(), weights.reshape(-1), select, kept.reshape(-1)


CASES = [
    (1, 1, 1, 1.0, 2), (64, 4, 2, 1.0, 2), (61, 7, 3, 1.0, 2), (300, 64, 2, 0.5, 1),
    (130, 16, 16, 1.0, 2), (1030, 9, 2, 1.25, 4), (20, 1100, 3, 1.0, 2), (50, 6, 6, 100.0, 2),
    (33, 5, 1, 0.0, 0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("tokens", "experts", "k", "factor", "least"), CASES)
def test_results(
    tokens: int, experts: int, k: int, factor: float, least: int, dtype: str, device: str
) -> None:
    logits = torch.randn(tokens, experts, device=device).to(DTYPES[dtype])
    capacity = capacity_of(tokens, experts, k, factor, least)
    for higher in (False, True):
        result = torch.float32 if higher else DTYPES[dtype]
        eps = torch.finfo(result).eps
        got = dlblas.topk_gating(logits, k, factor, least, higher)
        want = formula(logits, k, capacity, eps)
        assert got[0].dtype is result and got[2].dtype is result and got[0].shape == ()
        torch.testing.assert_close(got[0].double(), want[0], rtol=max(eps, 3e-6), atol=1e-30)
        torch.testing.assert_close(got[2].double(), want[2], rtol=max(eps, 6e-6), atol=1e-30)
        assert torch.equal(got[1], want[1]) and torch.equal(got[3], want[3])
        sums = got[2].view(k, tokens).double().sum(0)
        assert ((sums == 0) | ((sums - 1).abs() < k * eps + 1e-5) | (sums < 1)).all()


@pytest.mark.parametrize(("tokens", "experts", "k", "factor", "least"), CASES)
def test_tables_agree(
    tokens: int, experts: int, k: int, factor: float, least: int, device: str
) -> None:
    """A slot's token is the one assigned to that slot; no slot has two, with or without ties."""
    for logits in (
        torch.randn(tokens, experts, device=device),
        torch.randint(0, 3, (tokens, experts), device=device).float(),
        torch.zeros(tokens, experts, device=device),
    ):
        capacity = capacity_of(tokens, experts, k, factor, least)
        _, slots, weights, select, kept, first = dlblas.topk_gating_slots(logits, k, capacity)
        stays = kept >= 0
        assert (weights[~stays] == 0).all() and (slots[~stays] == 0).all()
        assert (weights[stays] > 0).all()
        taken = slots[stays].long()
        assert len(taken.unique()) == len(taken)
        token = torch.arange(tokens, device=device).repeat(k)
        assert torch.equal(select[taken], token[stays])
        if capacity:
            assert torch.equal(torch.div(taken, capacity, rounding_mode="floor"),
                               kept[stays].long())  # fmt: skip
        empty = torch.ones(experts * capacity, dtype=torch.bool, device=device)
        empty[taken] = False
        assert (select[empty] == 0).all()
        assert int(first.sum()) == (tokens if k else 0)


def test_equal_logits_go_to_the_lower_expert(device: str) -> None:
    logits = torch.zeros(6, 5, device=device)
    logits[1, 3] = -0.0
    logits[2, [2, 4]] = 1
    logits[3] = -torch.inf
    logits[3, 4] = 0
    _, slots, _, _, kept, first = dlblas.topk_gating_slots(logits, 3, 6)
    want = [[0, 1, 2], [0, 1, 2], [2, 4, 0], [4, 0, 1], [0, 1, 2], [0, 1, 2]]
    assert kept.view(3, 6).t().tolist() == want
    assert first.tolist() == [4, 0, 1, 0, 1]
    assert slots.view(3, 6)[0].tolist() == [0, 1, 12, 24, 2, 3]


def test_first_choices_before_second_ones(device: str) -> None:
    logits = torch.tensor([[2.0, 3.0], [2.0, 1.0], [2.0, 1.0]], device=device)
    _, slots, weights, select, kept, _ = dlblas.topk_gating_slots(logits, 2, 2)
    assert kept.tolist() == [1, 0, 0, -1, 1, -1]  # token 0's second choice finds no room
    assert slots.tolist() == [2, 0, 1, 0, 3, 0] and select.tolist() == [1, 2, 0, 1]
    assert weights[0] == 1 and weights[2] == 1 and weights[3] == 0


def test_nan_and_infinities(device: str) -> None:
    logits = torch.randn(8, 40, device=device)
    logits[1, 7] = torch.nan
    logits[2, 9] = torch.inf
    logits[3] = -torch.inf
    logits[4, 1:] = -torch.inf
    l_aux, _, weights, _, kept, _ = dlblas.topk_gating_slots(logits, 2, 8)
    weights, kept = weights.view(2, 8), kept.view(2, 8)
    assert l_aux.isnan() and weights[:, 1:4].isnan().all()
    assert weights[:, [0, 4, 5, 6, 7]].isfinite().all()
    assert kept[0, 1] == 7 and kept[0, 2] == 9 and kept[:, 3].tolist() == [0, 1]
    assert weights[:, 4].tolist() == [1, 0] and kept[:, 4].tolist() == [0, 1]


def test_nothing(device: str) -> None:
    for dtype in DTYPES.values():
        got = dlblas.topk_gating(torch.empty(0, 6, device=device, dtype=dtype), 2)
        assert [tuple(t.shape) for t in got] == [(), (0,), (0,), (0,)] and got[0] == 0
        got = dlblas.topk_gating(torch.randn(5, 6, device=device).to(dtype), 0)
        assert [tuple(t.shape) for t in got] == [(), (0,), (0,), (12,)] and got[0] == 0


def test_the_capacity_is_counted_in_f32() -> None:
    from dlblas._faces import moe_api  # type: ignore[attr-defined]

    rng, differs = np.random.default_rng(3), 0
    for _ in range(20000):
        tokens, experts = int(rng.integers(1, 5000)), int(rng.integers(1, 300))
        factor = float(rng.choice([1.0, 1.1, 1.2, 1.25, 0.7, rng.random() * 3]))
        for k in (1, 2, 6):
            share = np.float32(np.float32(tokens / experts) * np.float32(factor * k))
            want = min(max(int(np.ceil(share)), 2), tokens)
            assert moe_api._capacity(tokens, experts, factor * k, 2) == want
            differs += want != min(max(int(np.ceil(tokens / experts * factor * k)), 2), tokens)
    assert differs > 0, "f64 would have done"
    assert moe_api._capacity(100, 4, 1e300, 2) == 100
    assert moe_api._capacity(100, 4, -3.0, -5) == 0
    assert moe_api._capacity(100, 4, 1e-320, 1) == 1
    for value in (0.1, 1e-40, 3e-45, 7e-46, 1.5 + 2.0**-24, 1.5 + 3 * 2.0**-24, 0.3):
        assert moe_api._f32(value) == float(np.float32(value))


def test_numbers_of_arrays_without_dimensions() -> None:
    logits = torch.randn(6, 8)
    want = dlblas.topk_gating(logits, 2, 1.5)
    for k, factor in ((torch.tensor(2), torch.tensor(1.5)), (np.int64(2), np.float32(1.5))):
        got = dlblas.topk_gating(logits, k, factor)
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    with pytest.raises(dlblas.Error, match="capacity_factor is out of range"):
        dlblas.topk_gating(logits, 2, torch.ones(2))


def test_refusals(device: str) -> None:
    logits = torch.zeros(4, 3, device=device)
    for k in (4, -1):
        with pytest.raises(dlblas.errors.ArgumentError, match="k is out of range; expected 0 to 3"):
            dlblas.topk_gating(logits, k)
    for factor in (float("nan"), float("inf"), -1.0):
        with pytest.raises(dlblas.errors.ArgumentError, match="capacity_factor is out of range"):
            dlblas.topk_gating(logits, 1, factor)
    with pytest.raises(dlblas.errors.ArgumentError, match="min_capacity is out of range"):
        dlblas.topk_gating(logits, 1, 1.0, -1)
    with pytest.raises(dlblas.errors.ShapeMismatchError, match=r"expected \[\*T, E\]"):
        dlblas.topk_gating(logits[0], 1)
    for call in (dlblas.topk_gating, TopKGatingFunc.apply):
        for given, words in (
            ((None,), "k is of another type; expected an integer, got None"),
            ((1, None), "capacity_factor is of another type; expected a number, got None"),
            ((1, 1.0, None), "min_capacity is of another type; expected an integer, got None"),
        ):
            with pytest.raises(dlblas.errors.ArgumentTypeError, match=words):
                call(logits, *given)


# ---- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("tokens", "experts", "k", "factor", "least"), CASES)
def test_gradients(
    tokens: int, experts: int, k: int, factor: float, least: int, dtype: str, device: str
) -> None:
    """Compared with the contract's formula, differentiated by torch in f64."""
    x = torch.randn(tokens, experts, device=device).to(DTYPES[dtype]).requires_grad_()
    capacity = capacity_of(tokens, experts, k, factor, least)
    l_aux, _, weights, _ = TopKGatingFunc.apply(x, k, factor, least, True)
    upstream = torch.randn_like(weights)
    got = torch.autograd.grad([l_aux, weights], x, [torch.full_like(l_aux, 3.0), upstream])[0]
    wide = x.detach().double().requires_grad_()
    made = formula(wide, k, capacity, torch.finfo(torch.float32).eps)
    want = torch.autograd.grad((3 * made[0]) + (made[2] * upstream.double()).sum(), wide)[0]
    eps = torch.finfo(DTYPES[dtype]).eps
    torch.testing.assert_close(got.double(), want, rtol=2 * eps, atol=max(eps * 1e-2, 2e-6))


def test_gradients_by_finite_differences(device: str) -> None:
    """The logits are so far apart that no choice changes."""
    steps = torch.stack([torch.randperm(6) for _ in range(9)]).float()
    x = (steps / 2 + 0.02 * torch.randn(9, 6)).to(device).requires_grad_()

    def both(x: Any) -> Any:
        l_aux, _, weights, _ = dlblas.topk_gating(x, 3, 0.8)
        return l_aux, weights

    assert torch.autograd.gradcheck(
        both, (x,), eps=1e-2, atol=1e-3, rtol=1e-2, check_undefined_grad=True, nondet_tol=0.0,
        check_batched_grad=False, raise_exception=True,
    )  # fmt: skip


def test_one_result_alone_has_a_gradient(device: str) -> None:
    for use in itertools.product((False, True), repeat=2):
        x = torch.randn(20, 8, device=device, requires_grad=True)
        l_aux, slots, weights, select = dlblas.topk_gating(x, 2)
        assert not slots.requires_grad and not select.requires_grad
        if not any(use):
            continue
        out = l_aux * 2 * use[0] + (weights**2).sum() * use[1]
        wide = x.detach().double().requires_grad_()
        made = formula(wide, 2, capacity_of(20, 8, 2, 1.0, 2), torch.finfo(torch.float32).eps)
        want = torch.autograd.grad(made[0] * 2 * use[0] + (made[2] ** 2).sum() * use[1], wide)[0]
        (got,) = torch.autograd.grad(out, x)
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)


def test_gates_below_eps_are_divided_by_it(device: str) -> None:
    """512 equal experts in bf16: a gate is 2^-9, eps is 2^-7."""
    x = torch.zeros(4, 512, device=device, dtype=torch.bfloat16, requires_grad=True)
    _, _, weights, _ = dlblas.topk_gating(x, 2, 1.0, 4)
    assert (weights == 2.0**-2).all()
    (got,) = torch.autograd.grad(weights.sum(), x)
    wide = x.detach().double().requires_grad_()
    want = torch.autograd.grad(formula(wide, 2, 4, 2.0**-7)[2].sum(), wide)[0]
    torch.testing.assert_close(got.double(), want, rtol=2.0**-7, atol=1e-5)


def test_the_same_bits_twice_and_on_any_threads() -> None:
    from dlblas.harness import abi

    logits = torch.randn(3000, 24).numpy()
    first = None
    for threads in (1, 2, 3, 16, 1):
        out = [np.empty((), "f"), np.empty(6000, "i4"), np.empty(6000, "f"),
               np.empty(24 * 250, "i8"), np.empty(6000, "i4"), np.empty(24, "i4")]  # fmt: skip
        abi.call("topk_gating_slots", {"logits": logits, "k": 2, "capacity": 250}, out, threads)
        bits = [array.tobytes() for array in out]
        assert bits == (first := first or bits)


def test_in_torch(device: str) -> None:
    ops = torch.ops.dlblas
    x = torch.randn(24, 8, device=device, requires_grad=True)
    torch.library.opcheck(ops.topk_gating_slots.default, (x, 2, 6, None))
    made = ops.topk_gating_slots(x.detach(), 2, 6, None)
    given = (torch.ones((), device=device), torch.randn(48, device=device), x.detach())
    torch.library.opcheck(ops.topk_gating_backward.default, (*given, made[4], made[5], 2))
    meta = ops.topk_gating_slots(x.detach().to("meta"), 2, 6, None)
    assert [(t.shape, t.dtype) for t in meta] == [(t.shape, t.dtype) for t in made]

    def route(x: Any, higher_precision: bool) -> Any:
        made = dlblas.topk_gating(x * 2, 2, 1.5, 2, higher_precision)
        return made[0] + 1, made[1], made[2] * 2, made[3]

    compiled = torch.compile(route, backend="aot_eager", fullgraph=True)
    for tokens, higher in itertools.product((24, 40), (False, True)):
        x = torch.randn(tokens, 8, device=device, dtype=torch.bfloat16)
        for got, want in zip(compiled(x, higher), route(x, higher), strict=True):
            torch.testing.assert_close(got, want)


def open_call(way: str) -> Any:
    return {
        "function": dlblas.topk_gating,
        "operator": torch.ops.dlblas.topk_gating,
        "class": TopKGatingFunc.apply,
    }[way]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("way", ["function", "operator", "class"])
def test_one_graph_for_any_number_of_tokens(way: str, grad: bool) -> None:
    torch._dynamo.reset()
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    run = torch.compile(open_call(way), fullgraph=True, dynamic=True, backend=backend)
    for tokens in (30, 31, 64, 65, 1000, 1001):
        x = torch.randn(tokens, 8, requires_grad=grad)
        y = x.detach().clone().requires_grad_(grad)
        got, want = run(x, 2, 1.1), dlblas.topk_gating(y, 2, 1.1)
        for ours, theirs in zip(got, want, strict=True):
            torch.testing.assert_close(ours, theirs)
        if grad:
            for result in (got, want):
                (result[0] + result[2].square().sum()).backward()
            torch.testing.assert_close(x.grad, y.grad)
    assert len(graphs) == 1


@pytest.mark.parametrize("strict", [False, True])
def test_export_with_any_number_of_tokens(strict: bool) -> None:
    class Router(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return dlblas.topk_gating(x, 2, 1.25)

    sizes = ({0: torch.export.Dim("T", min=2, max=1 << 20)},)
    made = torch.export.export(Router(), (torch.randn(30, 8),), dynamic_shapes=sizes, strict=strict)
    for tokens in (2, 31, 1000):
        x = torch.randn(tokens, 8)
        for ours, theirs in zip(made.module()(x), dlblas.topk_gating(x, 2, 1.25), strict=True):
            torch.testing.assert_close(ours, theirs)


def test_a_weight_of_a_lost_gate_may_be_zero() -> None:
    """Gates below f32's normal range are lost on a GPU, and so are weights computed from them."""
    experts, tokens, choices = 8, 4, 2
    logits = np.zeros((tokens, experts), np.float32)
    logits[:, 0] = 95  # the other gates are e^-95, 2^-137
    kept = np.full(choices * tokens, 3, np.int32)
    weights = np.full(choices * tokens, 100, np.float32)
    call = (np.zeros((), np.float32), weights, logits, kept, np.zeros(experts, np.int32), choices)
    exact = dlblas.topk_gating_backward(*call)
    assert 1e-36 < np.abs(exact).max() < 1e-30
    assert dlblas.verify("topk_gating_backward", call, exact).ok
    assert dlblas.verify("topk_gating_backward", call, np.zeros_like(exact)).ok
    assert not dlblas.verify("topk_gating_backward", call, exact + np.float32(1e-20)).ok


@pytest.mark.parametrize("traced", [False, True])
def test_tokens_of_a_batch(traced: bool, device: str) -> None:
    logits = torch.randn(3, 10, 8, device=device)
    ours, theirs = (x.clone().requires_grad_() for x in (logits, logits.flatten(0, 1)))
    run = torch.compile(dlblas.topk_gating, fullgraph=True, backend="aot_eager")
    got = (run if traced else dlblas.topk_gating)(ours, 2)
    want = dlblas.topk_gating(theirs, 2)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    for results in (got, want):
        (results[0] + results[2].square().sum()).backward()
    assert torch.equal(ours.grad.flatten(0, 1), theirs.grad)
    for a, b in zip(dlblas.topk_gating(logits.cpu().numpy(), 2), want, strict=True):
        np.testing.assert_allclose(a, b.detach().cpu().numpy(), rtol=1e-5)


def test_an_error_names_each_place_of_out() -> None:
    """Also the sixth, of the operator with the most results."""
    logits = np.ones((4, 3), "f")
    places = dlblas.topk_gating_slots(logits, 2, 3)
    for i in range(len(places)):
        wrong = [*places[:i], "no array", *places[i + 1 :]]
        with pytest.raises(dlblas.errors.ArgumentError) as refused:
            dlblas.topk_gating_slots(logits, 2, 3, out=tuple(wrong))
        assert refused.value.argument == f"out[{i}]"
    assert len(places) == 6
