"""scale=0 in every kind of attention: a query weighs the keys that it sees alike, hidden keys stay
hidden, and NaN and infinities of q propagate.

Read next: python/dlblas/_scores.py.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import dlblas
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_flash_attention import CPU, GPU, drawn  # noqa: E402


@pytest.mark.parametrize("zero", [0.0, -0.0, 0, np.float32(0), torch.tensor(0.0)], ids=repr)
@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_scale_of_0_weighs_keys_alike(device: str, zero: Any) -> None:
    q, k, v = (t.to(device) for t in drawn((2, 5, 4, 16), (2, 9, 2, 16), (2, 9, 2, 8)))
    o, lse = dlblas.flash_attention(q, k, v, scale=zero, return_lse=True)
    mean = v.double().mean(1, keepdim=True).repeat_interleave(2, 2).expand(2, 5, 4, 8)
    torch.testing.assert_close(o.double(), mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(lse, torch.full_like(lse, math.log(9)))
    causal = dlblas.flash_attention(q, k, v, scale=zero, causal=True)
    rows = torch.arange(5, device=device)[:, None] + 4 >= torch.arange(9, device=device)
    weights = rows.double() / rows.double().sum(1, keepdim=True)
    seen = torch.einsum("sl,blhd->bshd", weights, v.double()).repeat_interleave(2, 2)
    torch.testing.assert_close(causal.double(), seen, rtol=1e-5, atol=1e-6)
    hidden = torch.zeros(5, 9, dtype=torch.bool, device=device)
    assert not dlblas.flash_attention(q, k, v, scale=zero, bias=hidden).any()  # nor NaN
    bias = torch.randn(5, 9, device=device)
    biased = dlblas.flash_attention(q, k, v, scale=zero, bias=bias, softcap=7.0)
    seen = torch.einsum("sl,blhd->bshd", bias.double().softmax(-1), v.double())
    torch.testing.assert_close(biased.double(), seen.repeat_interleave(2, 2), rtol=1e-5, atol=1e-6)


def test_a_scale_of_0_in_packed_and_paged_calls_and_f8() -> None:
    q, k, v = drawn((5, 4, 16), (9, 2, 16), (9, 2, 8))
    ends = torch.tensor([0, 2, 5]), torch.tensor([0, 4, 9])
    made = dlblas.flash_attention_varlen(q, k, v, *ends, scale=0.0)
    for (a, b), (c, d) in zip(pairwise(ends[0].tolist()), pairwise(ends[1].tolist()), strict=True):
        mean = v[c:d].mean(0).repeat_interleave(2, 0).expand(b - a, 4, 8)
        torch.testing.assert_close(made[a:b], mean, rtol=1e-5, atol=1e-6)
    pages = k[:8].reshape(2, 4, 2, 16), v[:8].reshape(2, 4, 2, 8)
    table, lengths = torch.tensor([[0, 1]]), torch.tensor([7])
    made = dlblas.paged_attention(q[:1], *pages, table, lengths, scale=0.0)
    mean = v[:7].mean(0).repeat_interleave(2, 0)[None]
    torch.testing.assert_close(made, mean, rtol=1e-5, atol=1e-6)
    latents, ropes = torch.randn(2, 4, 32), torch.randn(2, 4, 8)
    made = dlblas.mla_decode(
        torch.randn(1, 3, 32), torch.randn(1, 3, 8), latents, ropes, table, lengths, scale=0
    )
    mean = latents.reshape(8, 32)[:7].mean(0).expand(1, 3, 32)
    torch.testing.assert_close(made, mean, rtol=1e-5, atol=1e-6)
    f8 = [t[None].to(torch.float8_e4m3fn) for t in (q, k, v)]
    made = dlblas.flash_attention(*f8, scale=0.0, out_dtype=torch.float32)
    mean = f8[2].float().mean(1, keepdim=True).repeat_interleave(2, 2).expand(1, 5, 4, 8)
    torch.testing.assert_close(made, mean, rtol=1e-3, atol=1e-3)


def test_gradients_of_a_scale_of_0_and_what_it_propagates() -> None:
    q, k, v = (t.requires_grad_() for t in drawn((1, 3, 2, 8), (1, 5, 2, 8), (1, 5, 2, 8)))
    o = dlblas.flash_attention(q, k, v, scale=0.0)
    dq, dk, dv = torch.autograd.grad(o.sum(), (q, k, v))
    assert not dq.any() and not dk.any()
    torch.testing.assert_close(dv, torch.full_like(dv, 3 / 5))
    compiled = torch.compile(dlblas.flash_attention, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(q, k, v, scale=0.0), o)
    with torch.no_grad():
        q[0, 1, 0, 0] = float("inf")
        made = dlblas.flash_attention(q, k, v, scale=0.0)
    assert made[0, 1, 0].isnan().all() and int(made.isnan().sum()) == 8
    got = dlblas.flash_attention(*(t.detach().numpy() for t in (k, k, v)), scale=0.0)
    np.testing.assert_allclose(got[0, 0], v.detach().mean(1)[0].numpy(), rtol=1e-5, atol=1e-6)
