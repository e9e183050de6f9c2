"""Chains of consecutive operators from serving code in a CUDA graph: with programmatic dependent
launch, as the library launches them, and without it. Beside them: the fused operator where there is
one, torch, Inductor, and a copy of the bytes that a fused operator needs.

Used by: gpu.py. Read next: gpu_contest.py, gpu_edges.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

import dlblas
from dlblas.bench import peers
from dlblas.bench.gpu_contest import Contest, Row
from dlblas.bench.gpu_session import Session
from dlblas.bench.gpu_timing import one_line
from dlblas.ops import (
    add_rms_norm_quant_group_peers,
    rope_peers,
    silu_and_mul_quant_group_peers,
    store_kv_cache_peers,
)

SERIAL, FUSED = "ours without dependent launch", "ours fused"
_TOKENS = (128, 4096, 16384)
_COPIED = 1 << 16  # elements; copies of other sizes are half as fast

Results = tuple[torch.Tensor, ...]


class Chain(NamedTuple):
    """One chain on its own tensors; its functions take the index of a set."""

    ops: tuple[str, ...]
    problem: dict[str, Any]
    bytes: int  # that its inputs and last results are
    sets: int
    run: Callable[[int], Results]
    formula: Callable[..., Any]  # in torch
    given: Callable[[int], tuple[torch.Tensor, ...]]  # to the formula
    fused: Callable[[int], Results] | None = None


def _f8(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="cuda", dtype=torch.float8_e4m3fn)


def _f32(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="cuda", dtype=torch.float32)


def add_norm_quantize(bench: Session, tokens: int, width: int = 4096, group: int = 128) -> Chain:
    size = tokens * width
    needed = size * 7 + size // group * 4 + width * 2
    sets = bench.rotation(needed).sets
    x, residual = bench.normal(sets, tokens, width), bench.normal(sets, tokens, width)
    weight = bench.normal(width, scale=0.1, offset=1.0)
    y, h = torch.empty_like(x), torch.empty_like(x)
    q, scale = _f8(sets, tokens, width), _f32(sets, tokens, width // group)

    def run(i: int) -> Results:
        dlblas.add_rms_norm(x[i], weight, residual[i], out=(y[i], h[i]))
        dlblas.quantize_group(y[i], group, out=(q[i], scale[i]))
        return q[i], scale[i], h[i]

    def fused(i: int) -> Results:
        out = q[i], scale[i], h[i]
        dlblas.add_rms_norm_quant_group(x[i], weight, residual[i], group=group, out=out)
        return out

    return Chain(
        ("add_rms_norm", "quantize_group"), {"T": tokens, "C": width}, needed, sets, run,
        add_rms_norm_quant_group_peers.add_rms_norm_quant_group,
        lambda i: (x[i], weight, residual[i]), fused,
    )  # fmt: skip


def silu_quantize(bench: Session, tokens: int, width: int = 11264, group: int = 128) -> Chain:
    size = tokens * width
    needed = size * 5 + size // group * 4
    sets = bench.rotation(needed).sets
    x = bench.normal(sets, tokens, 2 * width)
    y = torch.empty((sets, tokens, width), device="cuda", dtype=torch.bfloat16)
    q, scale = _f8(sets, tokens, width), _f32(sets, tokens, width // group)

    def run(i: int) -> Results:
        dlblas.silu_and_mul(x[i], out=y[i])
        dlblas.quantize_group(y[i], group, out=(q[i], scale[i]))
        return q[i], scale[i]

    def fused(i: int) -> Results:
        dlblas.silu_and_mul_quant_group(x[i], group, out=(q[i], scale[i]))
        return q[i], scale[i]

    return Chain(
        ("silu_and_mul", "quantize_group"), {"T": tokens, "F": width}, needed, sets, run,
        silu_and_mul_quant_group_peers.silu_and_mul_quant_group, lambda i: (x[i],), fused,
    )  # fmt: skip


def rope_store(bench: Session, tokens: int, heads: int = 32, of_keys: int = 8) -> Chain:
    width, page, table = 128, 16, 2 * tokens
    blocks = 2 * tokens // page + 1
    needed = tokens * width * 2 * (2 * heads + 4 * of_keys + 1)
    sets = bench.rotation(needed).sets
    q = bench.normal(sets, tokens, heads, width)
    k, v = (bench.normal(sets, tokens, of_keys, width) for _ in range(2))
    q_out, k_out = torch.empty_like(q), torch.empty_like(k)
    cos_sin = bench.normal(table, width)
    positions = torch.randint(0, table, (tokens,), device="cuda", dtype=torch.int32)
    slots = torch.randperm(blocks * page, device="cuda")[:tokens].to(torch.int32)
    caches = [
        torch.zeros((sets, blocks, page, of_keys, width), device="cuda", dtype=torch.bfloat16)
        for _ in range(2)
    ]

    def run(i: int) -> Results:
        dlblas.rope(q[i], k[i], positions, cos_sin, out=(q_out[i], k_out[i]))
        dlblas.store_kv_cache(k_out[i], v[i], caches[0][i], caches[1][i], slots)
        return q_out[i], caches[0][i], caches[1][i]

    def in_torch(q: Any, k: Any, v: Any, keys: Any, values: Any) -> Results:
        turned, key = rope_peers.rope(q, k, positions, cos_sin)
        store_kv_cache_peers.store_kv_cache(key, v, keys, values, slots)
        return turned, keys, values

    return Chain(
        ("rope", "store_kv_cache"), {"T": tokens, "H": heads, "Hkv": of_keys, "D": width}, needed,
        sets, run, in_torch, lambda i: (q[i], k[i], v[i], caches[0][i], caches[1][i]),
    )  # fmt: skip


CHAINS = (add_norm_quantize, silu_quantize, rope_store)


def rows(bench: Session) -> Iterator[Row]:
    for tokens in _TOKENS[:1] if bench.quick else _TOKENS:
        for make in CHAINS:
            try:
                yield _row(bench, make(bench, tokens))
            except Exception as error:  # of one chain
                print(f"gpu_chain: {make.__name__} {tokens}: {one_line(error)}", flush=True)
            torch.cuda.empty_cache()


def _search(bench: Session, run: Callable[[int], Results]) -> None:
    with dlblas.autotune(bench.seconds):
        run(0)


def _row(bench: Session, chain: Chain) -> Row:
    torch.compiler.reset()
    contest = Contest(chain.ops[0], bench.rounds)
    for run in filter(None, (chain.run, chain.fused)):
        _search(bench, run)
    contest.took("search")
    contest.add("dlblas", dlblas.__version__, chain.run)
    contest.add(SERIAL, "", chain.run, serial=True)
    if chain.fused is not None:
        contest.add(FUSED, "", chain.fused)
    contest.add("torch", torch.__version__, lambda i: chain.formula(*chain.given(i)))
    compiled = torch.compile(chain.formula, dynamic=False)
    contest.add("inductor", torch.__version__, lambda i: compiled(*chain.given(i)))
    _add_copy(contest, bench, chain)
    reference = chain.formula(*(t.float() if t.is_floating_point() else t for t in chain.given(0)))
    contest.check(tuple(r.float() for r in reference), None)
    contest.hold(bench.rotation(chain.bytes))
    row = contest.row("gpu_chain", chain.problem, " → ".join(chain.ops), "")
    row["chain"], row["bytes"] = list(chain.ops), chain.bytes
    return row


def _add_copy(contest: Contest, bench: Session, chain: Chain) -> None:
    count = -(-chain.bytes // 4 // _COPIED) * _COPIED  # bf16, read and written
    source = bench.normal(chain.sets, count)
    to = torch.empty_like(source)
    contest.add(peers.COPY, torch.__version__, functools.partial(_copy, to, source))


def _copy(to: torch.Tensor, source: torch.Tensor, i: int) -> torch.Tensor:
    return to[i].copy_(source[i])
