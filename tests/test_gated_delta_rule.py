"""dlblas.gated_delta_rule: against plain loops in f64, states carried between calls, several heads
of v per head of q, several sequences in one call.

Shapes and layouts are in ops/ssm/gated_delta_rule_packed/cases.json. Read next:
ops/ssm/gated_delta_rule_packed/gated_delta_rule_packed_ref.cpp.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from torch_gradients import DTYPES, every_device  # noqa: E402, F401

BARS = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}


def loops(q: Any, k: Any, v: Any, g: Any, beta: Any, scale: float, state: Any) -> Any:
    """One sequence, [L, H, …], in f64; updates state [H, K, V] in place."""
    made = []
    for t in range(q.shape[0]):
        state *= g[t].double().exp()[:, None, None]
        left = v[t].double() - torch.einsum("hkv,hk->hv", state, k[t])
        state += k[t][:, :, None] * (beta[t].double()[:, None] * left)[:, None]
        made.append(scale * torch.einsum("hkv,hk->hv", state, q[t]))
    return torch.stack(made)


def inputs(shape: tuple[int, ...], dtype: Any, device: str, repeats: int = 2) -> tuple[Any, ...]:
    *lead, heads, width, columns = shape
    q, k = (torch.randn(*lead, heads, width, device=device).to(dtype) for _ in range(2))
    v = torch.randn(*lead, heads * repeats, columns, device=device).to(dtype)
    g = -torch.rand(*lead, heads * repeats, device=device)
    return q, k, v, g, torch.rand(*lead, heads * repeats, device=device)


def wide(x: Any, repeats: int = 2) -> Any:
    x = x.double()
    return (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()).repeat_interleave(repeats, -2)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_as_loops(dtype: Any, device: str) -> None:
    q, k, v, g, beta = inputs((2, 37, 3, 24, 40), dtype, device)
    state = torch.randn(2, 6, 24, 40, device=device)
    after = state.double()
    o = dlblas.gated_delta_rule(q, k, v, g, beta, state=state, qk_l2norm=True)
    for b in range(2):
        want = loops(wide(q[b]), wide(k[b]), v[b], g[b], beta[b], 24**-0.5, after[b])
        bar = BARS[dtype] * float(want.abs().max())
        torch.testing.assert_close(o[b].double(), want, rtol=0, atol=bar)
    torch.testing.assert_close(state.double(), after, rtol=0, atol=1e-4)
    assert o.dtype is dtype and o.shape == v.shape


def test_a_state_joins_calls(device: str) -> None:
    args = inputs((1, 20, 2, 16, 33), torch.float32, device)
    whole = dlblas.gated_delta_rule(*args, qk_l2norm=True)
    state = torch.zeros(1, 4, 16, 33, device=device)
    parts = [
        dlblas.gated_delta_rule(*(x[:, a:b] for x in args), state=state, qk_l2norm=True)
        for a, b in [(0, 7), *pairwise(range(7, 21))]
    ]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4, atol=1e-5)


def test_sequences_side_by_side(device: str) -> None:
    args = inputs((30, 2, 16, 33), torch.float32, device)
    offsets = [0, 1, 9, 9, 30]
    state = torch.randn(4, 4, 16, 33, device=device)
    before = state.clone()
    cu_seqlens = torch.tensor(offsets, device=device)
    o = dlblas.gated_delta_rule(*args, 0.3, state, cu_seqlens, True)
    for s, (a, b) in enumerate(pairwise(offsets)):
        one = before[s : s + 1].clone()
        if b > a:
            alone = dlblas.gated_delta_rule(*(x[None, a:b] for x in args), 0.3, one, None, True)
            torch.testing.assert_close(o[a:b], alone[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(state[s], one[0], rtol=1e-4, atol=1e-5)


def test_sequences_without_tokens(device: str) -> None:
    args = inputs((2, 0, 2, 16, 33), torch.float32, device)
    state = torch.randn(2, 4, 16, 33, device=device)
    before = state.clone()
    assert dlblas.gated_delta_rule(*args, state=state).shape == (2, 0, 4, 33)
    assert torch.equal(state, before)
    assert dlblas.gated_delta_rule(*(x.cpu().numpy() for x in args)).shape == (2, 0, 4, 33)


def test_tensors_of_other_tokens_are_refused(device: str) -> None:
    """Each has as many rows as q, or not: none is taken for the rows of other tokens."""
    args = inputs((2, 5, 2, 16, 33), torch.float32, device)
    state = torch.zeros(2, 4, 16, 33, device=device)
    for i, name in enumerate(("q", "k", "v", "g", "beta")):
        for wrong in (args[i].transpose(0, 1), args[i][:, :4], args[i][0], args[i][None], None):
            given = (*args[:i], wrong, *args[i + 1 :])
            with pytest.raises(dlblas.Error) as refused:
                dlblas.gated_delta_rule(*given, state=state)
            assert refused.value.argument == name or (i == 0 and refused.value.argument == "k")
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="state has another shape"):
        dlblas.gated_delta_rule(*args, state=state[:1])
    assert not state.any()
