"""Attention by ``cuda_wgmma`` where it leaves its short way: a maximum of earlier blocks of keys
stays until numerators grow large, and a cap has a form of its own.

Read next: attention_wgmma.py, test_flash_attention.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import pytest
from attention_wgmma import on_wgmma

torch = pytest.importorskip("torch")


def drawn(*shapes: tuple[int, ...]) -> list[Any]:
    made = torch.Generator().manual_seed(sum(map(sum, shapes)))
    return [torch.randn(shape, generator=made).cuda() for shape in shapes]


def exact(
    q: Any, k: Any, v: Any, causal: bool, scale: float, bias: Any, softcap: float
) -> tuple[Any, Any]:
    """o and lse in f64."""
    a, b, c = (t.double().transpose(1, 2) for t in (q, k, v))
    b, c = (t.repeat_interleave(a.shape[1] // b.shape[1], 1) for t in (b, c))
    scores = a @ b.transpose(-1, -2) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.double()
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(hidden.triu_(1 + k.shape[1] - q.shape[1]), -torch.inf)
    lse = scores.logsumexp(-1)
    weights = (scores - lse.masked_fill(lse == -torch.inf, 0)[..., None]).exp()
    return (weights @ c).transpose(1, 2), lse


def agrees(
    made: tuple[Any, Any], wanted: tuple[Any, Any], allowed: float, of_logits: float, what: Any
) -> None:
    """``of_logits``: the error of a logit."""
    o, lse = (t.double() for t in made)
    assert torch.equal(o.isfinite(), wanted[0].isfinite()), what
    there = wanted[0].isfinite()
    error = (o - wanted[0])[there].norm() / wanted[0][there].norm()
    assert error < allowed + of_logits, (what, float(error))
    torch.testing.assert_close(
        lse, wanted[1], atol=1e-4 + of_logits, rtol=2e-5, equal_nan=True,
        msg=lambda text: f"{what}: {text}",
    )  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_maxima_that_grow_from_block_to_block(d: int, dtype: str) -> None:
    """cuda_wgmma keeps a maximum until numerators grow large: scores that rise or fall by little or
    much over 1,500 keys, equal ones, those beyond 2^16, rows hidden up to their last blocks, a key
    that is not a number."""
    kind, scale = getattr(torch, dtype), d**-0.5
    q, k, v = drawn((2, 300, 2, d), (2, 1500, 2, d), (2, 1500, 2, d))
    place = torch.arange(1500, device="cuda")
    hidden = torch.zeros(1, 2, 300, 1500, device="cuda")
    hidden[..., 700:] = -torch.inf
    hidden[:, :, 7] = -torch.inf
    hidden[:, :, 100:200, :600] = -torch.inf
    calls: dict[str, tuple[Any, Any, float, Any]] = {
        "equal": (q * 0, k, scale, None), "negative scale": (q, k, -0.2, None),
        "no scale": (q, k, 0.0, None), "hidden": (q, k, scale, hidden),
    }  # fmt: skip
    for rise in (4.0, 40.0, 400.0, -40.0):
        grown, ones = k.clone(), q.clone()
        grown[..., 0], ones[..., 0] = (place * rise / 1500)[None, :, None], d**0.5
        calls[f"rise of {rise}"] = ones, grown, scale, None
    far, wide = k.clone(), q.clone()
    far[..., 0], wide[..., 0] = (place % 3 * 128.0)[None, :, None], 512.0
    calls["beyond 2^16"] = wide, far, 1.0, None
    lost = k.clone()
    lost[0, 400, 0, 3] = torch.nan
    calls["not a number"] = q, lost, scale, None
    # A product of 2^17 is the sum of up to 16 partial ones, each with an error of up to 2^-7.
    of_logits = {"beyond 2^16": 16 * 2.0**-7}
    for name, (of_q, of_k, factor, bias) in calls.items():
        if bias is not None and d > 128:
            continue  # registers hold no bias of each query beside heads of 256
        for causal in (False, True):
            own = [t.to(kind) for t in (of_q, of_k, v)]
            with on_wgmma("flash_attention_lse"):
                made = dlblas.flash_attention(
                    *own, causal=causal, scale=factor, bias=bias, return_lse=True
                )
            wanted = exact(*own, causal, factor, bias, 0.0)
            allowed = 6e-3 if kind == torch.bfloat16 else 1.5e-3
            agrees(made, wanted, allowed, of_logits.get(name, 0.0), (name, causal))


@pytest.mark.gpu
@pytest.mark.parametrize("d", [64, 128, 256])
def test_wgmma_caps_small_and_large_scores(d: int) -> None:
    """Of a cap: much less, about as much, and more than it; with a bias; a scale of either sign."""
    q, k, v = drawn((2, 300, 2, d), (2, 700, 2, d), (2, 700, 2, d))
    (bias,) = drawn((1, 2, 1, 700))
    for cap in (3.0, 30.0, 5000.0):
        for size, scale in [(0.3, d**-0.5), (1.0, d**-0.5), (4.0, -(d**-0.5)), (1.0, 1e-7)]:
            for more in (None, bias):
                own = [(t * s).to(torch.bfloat16) for t, s in ((q, size), (k, size), (v, 1.0))]
                with on_wgmma("flash_attention_lse"):
                    made = dlblas.flash_attention(
                        *own, causal=True, scale=scale, bias=more, softcap=cap, return_lse=True
                    )
                wanted = exact(*own, True, scale, more, cap)
                of_logits = 16 * cap * 2.0**-24  # what the oracle allows a tangent
                agrees(made, wanted, 6e-3, of_logits, (cap, size, scale, more is not None))
