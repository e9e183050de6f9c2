"""mla_decode beyond the cases common to all operators: unseen positions may hold anything, one
cache holds both parts of a key, a graph serves other lengths.

Read next: ops/attention/mla_decode_lse/, tests/test_paged_attention.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import pytest

torch = pytest.importorskip("torch")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def made(lengths: list[int], heads: int, dtype: Any, page: int = 16, seed: int = 0) -> Any:
    """q, one cache of latents and rotary keys side by side, a table of pages in random order."""
    draw = torch.Generator().manual_seed(seed)
    counts = [-(-n // page) for n in lengths]
    order = torch.randperm(sum(counts) + 2, generator=draw, dtype=torch.int32)
    table = torch.zeros(len(lengths), max([*counts, 1]), dtype=torch.int32)
    for b, count in enumerate(counts):
        table[b, :count] = order[sum(counts[:b]) :][:count]
    q = torch.randn(len(lengths), heads, 576, generator=draw).to(dtype)
    cache = torch.randn(len(order), page, 576, generator=draw).to(dtype)
    return q, cache, table


def expected(q: Any, cache: Any, table: Any, lengths: list[int], scale: float) -> Any:
    o = torch.zeros(*q.shape[:2], 512, dtype=torch.float64)
    lse = torch.full(q.shape[:2], -torch.inf, dtype=torch.float64)
    for b, length in enumerate(lengths):
        at = torch.arange(length)
        keys = cache[table[b, at // cache.shape[1]].long(), at % cache.shape[1]].double()
        s = q[b].double() @ keys.T * scale
        if length:
            o[b], lse[b] = torch.softmax(s, -1) @ keys[:, :512], torch.logsumexp(s, -1)
    return o, lse


def call(q: Any, cache: Any, table: Any, lengths: Any, **more: Any) -> Any:
    return dlblas.mla_decode(
        q[..., :512], q[..., 512:], cache[..., :512], cache[..., 512:], table, lengths, **more
    )


def agree(got: Any, want: Any, dtype: Any) -> None:
    o, lse = (x.cpu().double() for x in got)
    torch.testing.assert_close(o, want[0], atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    assert torch.equal(torch.isinf(lse), torch.isinf(want[1]))
    seen = ~torch.isinf(lse)
    torch.testing.assert_close(lse[seen], want[1][seen], atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [*TOLERANCE])
@pytest.mark.parametrize("heads", [1, 16, 40, 128])
def test_what_no_token_sees_may_hold_anything(device: str, dtype: Any, heads: int) -> None:
    lengths = [37, 0, 1, 64, 200]
    q, cache, table = made(lengths, heads, dtype)
    want = expected(q, cache, table, lengths, 0.1)
    stale = torch.ones(cache.shape[:2], dtype=torch.bool)
    for b, length in enumerate(lengths):
        at = torch.arange(length)
        stale[table[b, at // 16].long(), at % 16] = False
    cache[stale] = torch.nan
    there = [x.to(device) for x in (q, cache, table, torch.tensor(lengths, dtype=torch.int32))]
    agree(call(*there, scale=0.1, return_lse=True), want, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("implementation", ["cuda_wgmma", "cuda_decode", "cuda_rows"])
@pytest.mark.parametrize("heads", [16, 128])
def test_a_captured_graph_serves_other_lengths(implementation: str, heads: int) -> None:
    lengths = [700, 33, 512]
    q, cache, table = made(lengths, heads, torch.bfloat16)
    there = [x.cuda() for x in (q, cache, table, torch.tensor(lengths, dtype=torch.int32))]
    with dlblas.pinned("mla_decode_lse", implementation):
        call(*there)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = call(*there, return_lse=True)
        for now in (lengths, [1, 0, 17], [650, 30, 500]):
            there[3].copy_(torch.tensor(now, dtype=torch.int32))
            graph.replay()
            agree(got, expected(q, cache, table, now, 576**-0.5), torch.bfloat16)


@pytest.mark.parametrize("device", DEVICES)
def test_a_dimension_of_one_token_per_sequence(device: str) -> None:
    lengths = [37, 5]
    q, cache, table = (x.to(device) for x in made(lengths, 16, torch.bfloat16))
    ends = torch.tensor(lengths, dtype=torch.int32, device=device)
    expected = call(q, cache, table, ends, return_lse=True)
    got = call(q[:, None], cache, table, ends, return_lse=True)
    assert torch.equal(got[0], expected[0][:, None]) and torch.equal(got[1], expected[1][:, None])
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="one new token per sequence"):
        call(q.reshape(1, 2, 16, 576), cache, table, ends)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("heads", [1, 16, 128])
@pytest.mark.parametrize("wide", ["table", "lengths", "both"])
def test_tables_and_lengths_of_i64(device: str, heads: int, wide: str) -> None:
    q, cache, table = (x.to(device) for x in made([37, 0, 64, 200], heads, torch.bfloat16))
    lengths = torch.tensor([37, 0, 64, 200], dtype=torch.int32, device=device)
    spread = table.repeat_interleave(2, 1)[:, ::2]  # any strides
    expected = call(q, cache, spread, lengths, return_lse=True)
    got = call(
        q, cache, spread.long().repeat_interleave(2, 1)[:, ::2] if wide != "lengths" else spread,
        lengths.long() if wide != "table" else lengths, return_lse=True,
    )  # fmt: skip
    assert all(map(torch.equal, got, expected))


def test_a_scale_of_0_is_refused() -> None:
    q, cache, table = made([5], 2, torch.float32)
    parts = q[..., :512], q[..., 512:], cache[..., :512], cache[..., 512:], table
    lengths = torch.tensor([5], dtype=torch.int32)
    with pytest.raises(dlblas.errors.ArgumentError, match="mla_decode: scale leaves nothing"):
        dlblas.mla_decode(*parts, lengths, scale=0.0)
    with pytest.raises(dlblas.errors.ArgumentError, match="mla_decode: scale leaves nothing"):
        dlblas.mla_decode(*parts, lengths, scale=torch.tensor(0.0))
    dlblas.mla_decode(*parts, lengths, scale=-0.5)


def test_what_a_cpu_refuses() -> None:
    q, cache, table = made([5], 2, torch.float32)
    assert call(q, cache, table, torch.tensor([16], dtype=torch.int32)).shape == (1, 2, 512)
    for lengths, other, named in (([17], table, "seq_lens"), ([5], table + 3, "page_table")):
        with pytest.raises(dlblas.errors.ArgumentError, match=f"{named} is out of bounds"):
            call(q, cache, other, torch.tensor(lengths, dtype=torch.int32))


@pytest.mark.parametrize("codes", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("scales", [(None, None), (0.25, None), (0.25, 0.25), (0.7, 1.3)])
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_caches_of_codes(dtype: Any, codes: Any, scales: tuple[float | None, ...]) -> None:
    """As store_mla_cache writes them, and read back with the same scales."""
    lengths, heads, page = [37, 0, 5, 64], 5, 16
    q, cache, table = made(lengths, heads, dtype)
    written = torch.zeros(cache.shape, dtype=codes)
    parts = written[..., :512], written[..., 512:]
    given = [None if s is None else torch.tensor(s) for s in scales]
    rows = cache.reshape(-1, 576)
    dlblas.store_mla_cache(
        rows[:, :512], rows[:, 512:], *parts, torch.arange(len(rows)), *given
    )  # fmt: skip
    factor = torch.cat([torch.full((n,), s or 1.0) for n, s in zip((512, 64), scales, strict=True)])
    want = expected(q, written.double() * factor.double(), table, lengths, 0.1)
    more = dict(zip(("ckv_scale", "kpe_scale"), given, strict=True))
    ends = torch.tensor(lengths, dtype=torch.int32)
    got = dlblas.mla_decode(
        q[..., :512], q[..., 512:], *parts, table, ends, 0.1, return_lse=True, **more
    )
    agree(got, want, dtype)
    assert page == cache.shape[1]


def test_what_reads_codes() -> None:
    """CPUs do; every CUDA implementation says why it does not."""
    q, cache, table = made([5], 2, torch.bfloat16)
    ends = torch.tensor([5], dtype=torch.int32)
    codes = cache.to(torch.float8_e4m3fn)
    with pytest.raises(dlblas.errors.UnsupportedDtypeError, match="kpe_cache has dtype bf16"):
        dlblas.mla_decode(
            q[..., :512], q[..., 512:], codes[..., :512], cache[..., 512:], table, ends
        )
    for given, more, words in (
        (codes, {}, "ckv_cache holds codes of 8 bits, which only CPUs read"),
        (cache, {"ckv_scale": torch.tensor(2.0)}, "ckv_scale is given, which only CPUs apply"),
    ):
        args = q[..., :512], q[..., 512:], given[..., :512], given[..., 512:], table, ends
        dlblas.mla_decode(*args, **more)
        found = dlblas.explain("mla_decode_lse", *args, device="sm_90a", **more).as_dict()
        reasons = [
            one["reason"] for one in found["candidates"] if one["implementation"].startswith("cuda")
        ]
        assert len(reasons) == 3 and all(words in reason for reason in reasons), reasons
