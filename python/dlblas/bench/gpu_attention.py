"""Attention beside torch's SDPA (cuDNN and FlashAttention-2) and FlashAttention-3: forward,
backward, decoding.

Used by: gpu.py. Read next: gpu_families.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.attention import SDPBackend

import dlblas
from dlblas.bench import flash3, peers
from dlblas.bench import gpu_attention_forms as forms
from dlblas.bench.gpu_attention_forms import BACKENDS, copied, exact, sdpa
from dlblas.bench.gpu_contest import Row
from dlblas.bench.gpu_families import Trial, measured
from dlblas.bench.gpu_session import Session

_TOKENS = 16384
_PAGE = 16
_PAGES = (  # batch, keys, page
    (16, 8192, 1), (16, 8192, 16), (16, 8192, 64),
    (256, 128, 16), (256, 1024, 16), (1, 131072, 16), (8, 131072, 64),
)  # fmt: skip


def forward(
    bench: Session, dim: int, length: int, heads: int, of_keys: int, causal: bool, dv: int = 0
) -> Trial:
    """``dv``: columns of v, if not those of q and k."""
    dv = dv or dim
    batch = max(1, (512 if bench.quick else _TOKENS) // length)
    needed = batch * length * (dim + dv) * 2 * (heads + of_keys)
    sets = bench.rotation(needed).sets
    q = bench.normal(sets, batch, length, heads, dim)
    k, v = (bench.normal(sets, batch, length, of_keys, width) for width in (dim, dv))
    flops = 2.0 * batch * heads * length * length * (dim + dv) * (0.5 if causal else 1.0)
    problem = {"B": batch, "S": length, "H": heads, "Hkv": of_keys, "D": dim}
    if dv != dim:
        problem["Dv"] = dv
    return Trial(
        "flash_attention", {**problem, "mask": "causal" if causal else "none"}, sets,
        lambda i: dlblas.flash_attention(q[i], k[i], v[i], causal=causal),
        lambda: (exact(q[0], k[0], v[0], causal),),
        {
            **{
                name: functools.partial(_turn, backend, q, k, v, causal)
                for name, backend in BACKENDS.items()
            },
            **flash3.dense(q, k, v, causal),
        },
        flops, needed,
    )  # fmt: skip


def _turn(backend: SDPBackend, q: Any, k: Any, v: Any, causal: bool, i: int) -> torch.Tensor:
    return sdpa(backend, q[i], k[i], v[i], causal)


def backward(bench: Session, dim: int, length: int, heads: int) -> Trial:
    batch = max(1, (512 if bench.quick else _TOKENS) // length)
    needed = 2 * batch * length * dim * 8 * heads
    q, k, v = (bench.normal(batch, length, heads, dim).requires_grad_() for _ in range(3))
    dout = bench.normal(batch, length, heads, dim)

    def gradients(attention: Callable[..., torch.Tensor]) -> Callable[[int], Any]:
        """The forward pass runs in the first call, the check: a failure counts for that rival."""
        made: list[torch.Tensor] = []

        def run(_: int) -> Any:
            if not made:
                side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    made.append(attention(q, k, v))
                side.synchronize()
            return torch.autograd.grad(made[0], (q, k, v), dout, retain_graph=True)

        return run

    def reference() -> tuple[torch.Tensor, ...]:
        wide = [t.detach().float().requires_grad_() for t in (q, k, v)]
        out = sdpa(SDPBackend.MATH, wide[0], wide[1], wide[2], True)
        return torch.autograd.grad(out, wide, dout.float())

    rivals = {
        name: gradients(functools.partial(sdpa, backend, causal=True))
        for name, backend in BACKENDS.items()
    }
    problem = {"B": batch, "S": length, "H": heads, "Hkv": heads, "D": dim, "mask": "causal"}
    ours = gradients(functools.partial(dlblas.flash_attention, causal=True))
    flops = 10.0 * batch * heads * length * length * dim * 0.5
    return Trial("flash_attention_backward", problem, 1, ours, reference, rivals, flops, needed)


def decode(bench: Session, batch: int, length: int, heads: int, of_keys: int, dim: int) -> Trial:
    needed = 2 * batch * (length * dim * 2 * of_keys + 2 * heads * dim)
    sets = bench.rotation(needed).sets
    q = bench.normal(sets, batch, heads, dim)
    k, v = (bench.normal(sets, batch * length // _PAGE, _PAGE, of_keys, dim) for _ in range(2))
    pages = torch.arange(batch * length // _PAGE, device="cuda", dtype=torch.int32)
    table = pages.view(batch, -1)
    lengths = torch.full((batch,), length, device="cuda", dtype=torch.int32)

    def flat(cache: torch.Tensor, i: int) -> torch.Tensor:
        return cache[i].view(batch, length, of_keys, dim)

    def theirs(backend: SDPBackend, i: int) -> torch.Tensor:
        return sdpa(backend, q[i].unsqueeze(1), flat(k, i), flat(v, i), False).squeeze(1)

    return Trial(
        "paged_attention",
        {"B": batch, "L": length, "H": heads, "Hkv": of_keys, "D": dim, "page": _PAGE}, sets,
        lambda i: dlblas.paged_attention(q[i], k[i], v[i], table, lengths),
        lambda: (exact(q[0].unsqueeze(1), flat(k, 0), flat(v, 0), False).squeeze(1),),
        {
            **{name: functools.partial(theirs, backend) for name, backend in BACKENDS.items()},
            **flash3.decode(q, *(t.view(sets, batch, length, of_keys, dim) for t in (k, v))),
            peers.COPY: copied(bench, needed),
        },
        4.0 * batch * heads * length * dim, needed,
    )  # fmt: skip


def mla(bench: Session, batch: int, length: int, heads: int = 128) -> Trial:
    latent, turned, page = 512, 64, 64
    needed = 2 * batch * (length * (latent + turned) + heads * (2 * latent + turned))
    sets = bench.rotation(needed).sets
    q_nope, q_pe = (bench.normal(sets, batch, heads, d) for d in (latent, turned))
    blocks = batch * length // page
    ckv, kpe = (bench.normal(sets, blocks, page, d) for d in (latent, turned))
    table = torch.arange(blocks, device="cuda", dtype=torch.int32).view(batch, -1)
    lengths = torch.full((batch,), length, device="cuda", dtype=torch.int32)
    scale = (128 + turned) ** -0.5

    def reference() -> tuple[torch.Tensor, ...]:
        c, p = (t[0].float().view(batch, length, -1) for t in (ckv, kpe))
        scores = q_nope[0].float() @ c.mT + q_pe[0].float() @ p.mT
        return ((scores * scale).softmax(-1) @ c,)

    return Trial(
        "mla_decode", {"B": batch, "L": length, "H": heads}, sets,
        lambda i: dlblas.mla_decode(q_nope[i], q_pe[i], ckv[i], kpe[i], table, lengths, scale),
        reference, {peers.COPY: copied(bench, needed)},
        2.0 * batch * heads * length * (2 * latent + turned), needed,
    )  # fmt: skip


def _trials(bench: Session) -> Iterator[functools.partial[Trial]]:
    if bench.quick:
        yield functools.partial(forward, bench, 64, 128, 4, 2, True)
        yield functools.partial(backward, bench, 64, 128, 2)
        yield functools.partial(decode, bench, 2, 256, 8, 2, 64)
        yield functools.partial(mla, bench, 2, 128, 16)
        yield functools.partial(forms.ragged, bench, 4, 64)
        yield functools.partial(forms.scores, bench, "softcap")
        yield functools.partial(forms.sinks, bench)
        yield functools.partial(forms.chunk, bench, 64, 128, "f8e4m3")
        yield functools.partial(forms.of_f8, bench, 128, True)
        yield functools.partial(forms.pages, bench, 2, 128, 16)
        return
    for dim in (128, 64, 256):
        for length in (4096, 16384, 1024):
            for causal in (True, False):
                heads = 2048 // dim
                yield functools.partial(forward, bench, dim, length, heads, heads, causal)
    yield functools.partial(forward, bench, 128, 4096, 32, 8, True)
    for dim, dv, heads in ((192, 128, 16), (96, 96, 20)):
        for causal in (True, False):
            yield functools.partial(forward, bench, dim, 4096, heads, heads, causal, dv)
    for batch in (1, 16, 64):
        yield functools.partial(decode, bench, batch, 8192, 32, 8, 128)
    for batch in (1, 16, 128):
        yield functools.partial(mla, bench, batch, 4096)
        yield functools.partial(mla, bench, batch, 4096, 16)
    for length in (4096, 16384):
        yield functools.partial(backward, bench, 128, length, 16)
    yield functools.partial(forms.ragged, bench, 16, 128)
    for form in ("softcap", "window", "alibi"):
        yield functools.partial(forms.scores, bench, form)
    yield functools.partial(forms.sinks, bench)
    for cache in ("bf16", "f8e4m3"):
        yield functools.partial(forms.chunk, bench, 2048, 8192, cache)
    for length in (4096, 16384):
        for causal in (True, False):
            yield functools.partial(forms.of_f8, bench, length, causal)
    for batch, length, page in _PAGES:
        yield functools.partial(forms.pages, bench, batch, length, page)


def rows(bench: Session) -> Iterator[Row]:
    calls: dict[Callable[..., Trial], str] = {
        forward: "flash_attention", decode: "paged_attention", mla: "mla_decode",
        backward: "flash_attention_backward", forms.ragged: "flash_attention_varlen",
        forms.scores: "flash_attention", forms.of_f8: "flash_attention",
        forms.sinks: "paged_attention", forms.pages: "paged_attention",
        forms.chunk: "paged_attention",
    }  # fmt: skip
    yield from measured(bench, "gpu_attention", _trials(bench), calls)
