"""Attention in forms other than a dense prefill: ragged batches, modified scores, f8, pages.

Beside torch where torch has the form, beside our own plain call, and beside a copy of the bytes.
Used by: gpu_attention.py. Read next: gpu_families.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, flex_attention, sdpa_kernel

import dlblas
from dlblas.bench import flash3, peers
from dlblas.bench.gpu_families import Trial, beside
from dlblas.bench.gpu_session import Session
from dlblas.bench.gpu_timing import Run

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash2": SDPBackend.FLASH_ATTENTION}
_LENGTHS = (
    100,
    181,
    328,
    512,
    595,
    777,
    1024,
    1081,
    1500,
    1963,
    2048,
    3000,
    3565,
    4096,
    6477,
    8192,
)
_CAP = 30.0
_WINDOW = 1023
_PAGE = 16
_OF_F8 = 4.0  # probabilities in e4m3: 3 % of the result

Scores = Callable[[torch.Tensor, int], torch.Tensor]  # of a head: [S, L], and which head


def sdpa(backend: SDPBackend, q: Any, k: Any, v: Any, causal: bool) -> torch.Tensor:
    q, k, v = (t.transpose(-3, -2) for t in (q, k, v))
    with sdpa_kernel(backend):
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=True
        )
    return out.transpose(-3, -2)


def exact(q: Any, k: Any, v: Any, causal: bool, change: Scores | None = None) -> torch.Tensor:
    """Attention in f32, one head at a time. ``change``: applied to the scaled scores."""
    group = q.shape[-2] // k.shape[-2]
    out = torch.empty(*q.shape[:-1], v.shape[-1], device=q.device)
    for b in range(q.shape[0]):
        for h in range(q.shape[-2]):
            scores = q[b, :, h].float() @ k[b, :, h // group].float().T * q.shape[-1] ** -0.5
            if change is not None:
                scores = change(scores, h)
            if causal:
                shift = k.shape[1] - q.shape[1]
                scores.masked_fill_(torch.ones_like(scores).triu_(1 + shift).bool(), -torch.inf)
            out[b, :, h] = scores.softmax(-1) @ v[b, :, h // group].float()
    return out


def copied(bench: Session, needed: int) -> Run:
    """A copy that moves ``needed`` bytes, reads and writes together."""
    half = needed // 2
    sets = bench.rotation(2 * half).sets
    source = torch.zeros(sets, half, dtype=torch.uint8, device="cuda")
    to = torch.empty_like(source)
    return lambda i: to[i % sets].copy_(source[i % sets])


def ragged(bench: Session, heads: int, dim: int) -> Trial:
    """Causal sequences of many lengths, beside a dense one with as many multiply-adds."""
    lengths = (17, 40, 64) if bench.quick else _LENGTHS
    total = sum(lengths)
    needed = 2 * total * dim * heads * 4
    sets = bench.rotation(needed).sets
    q, k, v = (bench.normal(sets, total, heads, dim) for _ in range(3))
    ends = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)
    same = 64 * round(math.sqrt(sum(n * n for n in lengths)) / 64)
    dense = [bench.normal(1, max(64, same), heads, dim) for _ in range(3)]

    def reference() -> tuple[torch.Tensor, ...]:
        made, begin = [], 0
        for n in lengths:
            of_q, of_k, of_v = (t[:1, begin : begin + n] for t in (q, k, v))
            made.append(exact(of_q, of_k, of_v, True)[0])
            begin += n
        return (torch.cat(made),)

    def flash2(i: int) -> Any:
        most = max(lengths)
        return torch.ops.aten._flash_attention_forward(
            q[i], k[i], v[i], ends, ends, most, most, 0.0, True, False
        )[:1]

    return Trial(
        "flash_attention_varlen",
        {"T": total, "sequences": len(lengths), "most": max(lengths), "H": heads, "D": dim}, sets,
        lambda i: dlblas.flash_attention_varlen(q[i], k[i], v[i], ends, ends, causal=True),
        reference,
        {
            "flash2": flash2,
            **flash3.varlen(q, k, v, ends, max(lengths)),
            "ours dense": beside(lambda _: dlblas.flash_attention(*dense, causal=True)),
        },
        2.0 * heads * dim * sum(n * n for n in lengths), needed,
    )  # fmt: skip


def _flex(form: str, length: int, slopes: torch.Tensor) -> Callable[..., torch.Tensor]:
    """torch's compiled flex_attention with the same scores."""

    def seen(_b: Any, _h: Any, i: Any, j: Any) -> Any:
        return (i >= j) & (i - j <= _WINDOW) if form == "window" else i >= j

    def scored(score: Any, _b: Any, h: Any, i: Any, j: Any) -> Any:
        if form == "softcap":
            return _CAP * torch.tanh(score / _CAP)
        return score + slopes[h] * (j - i) if form == "alibi" else score

    mask = flex_attention.create_block_mask(seen, None, None, length, length, device="cuda")
    run: Callable[..., torch.Tensor] = torch.compile(flex_attention.flex_attention, dynamic=False)

    def attention(q: Any, k: Any, v: Any) -> torch.Tensor:
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return run(q, k, v, score_mod=scored, block_mask=mask, enable_gqa=True).transpose(1, 2)

    return attention


def scores(bench: Session, form: str) -> Trial:
    """Causal attention with a soft cap, a window or ALiBi, beside the plain call."""
    batch, length, heads, of_keys, dim = (
        (1, 128, 4, 2, 64) if bench.quick else (4, 4096, 32, 8, 128)
    )
    needed = 2 * batch * length * dim * 2 * (heads + of_keys)
    sets = bench.rotation(needed).sets
    q = bench.normal(sets, batch, length, heads, dim)
    k, v = (bench.normal(sets, batch, length, of_keys, dim) for _ in range(2))
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device="cuda") / heads)
    places = torch.arange(length, device="cuda")
    # Depends on the key's position alone: softmax cancels a term that all scores of a row share.
    bias = (slopes[:, None] * places).view(1, heads, 1, length)
    forms: dict[str, dict[str, Any]] = {
        "softcap": {"softcap": _CAP}, "window": {"window": _WINDOW}, "alibi": {"bias": bias},
    }  # fmt: skip
    more = forms[form]

    def change(scores: torch.Tensor, head: int) -> torch.Tensor:
        if form == "softcap":
            return _CAP * (scores / _CAP).tanh()
        if form == "alibi":
            return scores + bias[0, head, 0]
        return scores.masked_fill(places[:, None] - places > _WINDOW, -torch.inf)

    hidden = max(0, length - _WINDOW - 1) if form == "window" else 0
    seen = length * length / 2 - hidden * hidden / 2  # pairs
    flex: list[Callable[..., torch.Tensor]] = []

    def theirs(i: int) -> torch.Tensor:
        if not flex:
            flex.append(_flex(form, length, slopes))
        return flex[0](q[i], k[i], v[i])

    return Trial(
        "flash_attention",
        {"B": batch, "S": length, "H": heads, "Hkv": of_keys, "D": dim, "mask": f"causal, {form}"},
        sets,
        lambda i: dlblas.flash_attention(q[i], k[i], v[i], causal=True, **more),
        lambda: (exact(q[0], k[0], v[0], True, change),),
        {
            "flex": theirs,
            **(flash3.dense(q, k, v, True, softcap=_CAP) if form == "softcap" else {}),
            "ours plain": beside(lambda i: dlblas.flash_attention(q[i], k[i], v[i], causal=True)),
        },
        4.0 * batch * heads * seen * dim, needed,
    )  # fmt: skip


def sinks(bench: Session) -> Trial:
    """A prefill from pages with one sink per head, beside the same call without sinks."""
    length, heads, of_keys, dim = (128, 4, 2, 64) if bench.quick else (4096, 32, 8, 128)
    needed = 2 * length * dim * 2 * (heads + of_keys)
    sets = bench.rotation(needed).sets
    q = bench.normal(sets, length, heads, dim)
    k, v = (bench.normal(sets, length // _PAGE, _PAGE, of_keys, dim) for _ in range(2))
    table = torch.arange(length // _PAGE, device="cuda", dtype=torch.int32).view(1, -1)
    lengths = torch.full((1,), length, device="cuda", dtype=torch.int32)
    ends = torch.tensor([0, length], device="cuda", dtype=torch.int32)
    sink = torch.linspace(-2, 4, heads, device="cuda")

    def ours(i: int, sink: torch.Tensor | None) -> torch.Tensor:
        made: torch.Tensor = dlblas.paged_attention(
            q[i], k[i], v[i], table, lengths, cu_seqlens_q=ends, sinks=sink
        )
        return made

    def reference() -> tuple[torch.Tensor, ...]:
        keys, values = (t[0].reshape(1, length, of_keys, dim) for t in (k, v))
        kept: list[torch.Tensor] = []

        def change(scores: torch.Tensor, head: int) -> torch.Tensor:
            seen = scores.masked_fill(torch.ones_like(scores).triu_(1).bool(), -torch.inf)
            kept.append((seen.logsumexp(-1) - sink[head]).sigmoid())
            return scores

        plain = exact(q[:1], keys, values, True, change)[0]
        return (plain * torch.stack(kept, 1).unsqueeze(-1),)

    return Trial(
        "paged_attention",
        {"T": length, "H": heads, "Hkv": of_keys, "D": dim, "page": _PAGE, "mask": "causal, sinks"},
        sets, functools.partial(ours, sink=sink), reference,
        {"ours plain": beside(functools.partial(ours, sink=None))},
        2.0 * heads * length * length * dim, needed,
    )  # fmt: skip


def chunk(bench: Session, tokens: int, length: int, cache: str) -> Trial:
    """New tokens of a sequence whose keys are in pages of dtype ``cache``, beside our dense call
    over contiguous keys."""
    heads, of_keys, dim = (4, 2, 64) if bench.quick else (32, 8, 128)
    kept = {"bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn}[cache]
    needed = 2 * 2 * tokens * dim * heads + 2 * length * dim * of_keys * kept.itemsize
    sets = bench.rotation(needed).sets
    q = bench.normal(sets, tokens, heads, dim)
    k, v = (bench.normal(sets, length // _PAGE, _PAGE, of_keys, dim).to(kept) for _ in range(2))
    table = torch.randperm(length // _PAGE, device="cuda").to(torch.int32).view(1, -1)
    lengths = torch.full((1,), length, device="cuda", dtype=torch.int32)
    ends = torch.tensor([0, tokens], device="cuda", dtype=torch.int32)
    dense = [bench.normal(1, length, of_keys, dim) for _ in range(2)]

    def reference() -> tuple[torch.Tensor, ...]:
        keys, values = (t[0].float()[table[0].long()].view(1, length, of_keys, dim) for t in (k, v))
        return (exact(q[:1], keys, values, True)[0],)

    seen = tokens * (length - tokens / 2)  # pairs
    return Trial(
        "paged_attention",
        {"T": tokens, "L": length, "H": heads, "Hkv": of_keys, "D": dim, "page": _PAGE,
         "mask": "causal", "cache": cache}, sets,
        lambda i: dlblas.paged_attention(q[i], k[i], v[i], table, lengths, cu_seqlens_q=ends),
        reference,
        {"ours dense": beside(lambda i: dlblas.flash_attention(q[i : i + 1], *dense, causal=True))},
        4.0 * heads * seen * dim, needed,
    )  # fmt: skip


def of_f8(bench: Session, length: int, causal: bool) -> Trial:
    """q, k and v in e4m3 with one factor per key head, beside bf16."""
    heads, dim = (4, 64) if bench.quick else (16, 128)
    batch = max(1, (512 if bench.quick else 16384) // length)
    needed = batch * length * dim * heads * 5
    sets = bench.rotation(needed).sets
    wide = [bench.normal(sets, batch, length, heads, dim) for _ in range(3)]
    q, k, v = (t.to(torch.float8_e4m3fn) for t in wide)
    a, b, c = wide
    factors = torch.ones(1, heads, device="cuda")
    given: dict[str, Any] = {n: factors for n in ("q_descale", "k_descale", "v_descale")}
    problem = {"B": batch, "S": length, "H": heads, "Hkv": heads, "D": dim}
    return Trial(
        "flash_attention",
        {**problem, "mask": "causal" if causal else "none", "inputs": "e4m3"}, sets,
        lambda i: dlblas.flash_attention(q[i], k[i], v[i], causal=causal, **given),
        lambda: (exact(q[0], k[0], v[0], causal),),
        {
            **flash3.dense(q, k, v, causal, **{n: t.expand(batch, -1) for n, t in given.items()}),
            "cudnn bf16": beside(lambda i: sdpa(BACKENDS["cudnn"], a[i], b[i], c[i], causal)),
        },
        4.0 * batch * heads * length * length * dim * (0.5 if causal else 1.0), needed,
        allowed=_OF_F8,
    )  # fmt: skip


def pages(bench: Session, batch: int, length: int, page: int) -> Trial:
    """Decoding from pages in random order, beside a copy of the cache's bytes."""
    heads, of_keys, dim = 32, 8, 128
    needed = 2 * batch * (length * dim * 2 * of_keys + 2 * heads * dim)
    sets = bench.rotation(needed).sets
    q = bench.normal(sets, batch, heads, dim)
    count = batch * length // page
    k, v = (bench.normal(sets, count, page, of_keys, dim) for _ in range(2))
    table = torch.randperm(count, device="cuda").to(torch.int32).view(batch, -1)
    lengths = torch.full((batch,), length, device="cuda", dtype=torch.int32)

    def reference() -> tuple[torch.Tensor, ...]:
        made = []
        for b in range(batch):
            keys, values = (t[0][table[b].long()].view(1, length, of_keys, dim) for t in (k, v))
            made.append(exact(q[0, b].view(1, 1, heads, dim), keys, values, False)[0])
        return (torch.cat(made),)

    return Trial(
        "paged_attention",
        {"B": batch, "L": length, "H": heads, "Hkv": of_keys, "D": dim, "page": page,
         "pages": "anywhere"}, sets,
        lambda i: dlblas.paged_attention(q[i], k[i], v[i], table, lengths), reference,
        {peers.COPY: copied(bench, needed)},
        4.0 * batch * heads * length * dim, needed,
    )  # fmt: skip
