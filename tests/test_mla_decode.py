"""mla_decode beyond the cases common to all operators: unseen positions may hold anything, one
cache holds both parts of a key, in codes of 8 bits too, a graph serves other lengths.

Read next: ops/attention/mla_decode_lse/, tests/test_paged_attention.py.
"""

from __future__ import annotations

import contextlib
from typing import Any

import dlblas
import pytest

torch = pytest.importorskip("torch")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
GPU_IMPLEMENTATIONS = ["cuda_wgmma", "cuda_decode", "cuda_rows"]
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
@pytest.mark.parametrize("implementation", GPU_IMPLEMENTATIONS)
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


@pytest.mark.gpu
@pytest.mark.parametrize("codes", [None, torch.float8_e4m3fn])
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize(
    "heads, page", [(16, 64), (40, 16), (128, 64), (128, 8), (192, 16), (256, 32)]
)
def test_blocks_of_a_cluster_join_their_parts(
    heads: int, page: int, cluster: int, codes: Any
) -> None:
    lengths = [1003, 0, 1, 64, 65, 130, 700]
    q, cache, table = made(lengths, heads, torch.bfloat16, page)
    cache = cache if codes is None else cache.to(codes)
    want = expected(q, cache.double(), table, lengths, 0.1)
    there = [x.cuda() for x in (q, cache, table, torch.tensor(lengths, dtype=torch.int32))]
    for least in (1, 2, 8):
        with dlblas.pinned("mla_decode_lse", "cuda_wgmma", f"least={least} cluster={cluster}"):
            agree(call(*there, scale=0.1, return_lse=True), want, torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("heads", [16, 128])
def test_more_sequences_than_multiprocessors(heads: int) -> None:
    lengths = [(37 * b) % 400 for b in range(150)]
    q, cache, table = made(lengths, heads, torch.float16)
    want = expected(q, cache, table, lengths, 0.1)
    there = [x.cuda() for x in (q, cache, table, torch.tensor(lengths, dtype=torch.int32))]
    for cluster in (1, 2):
        with dlblas.pinned("mla_decode_lse", "cuda_wgmma", f"least=1 cluster={cluster}"):
            agree(call(*there, scale=0.1, return_lse=True), want, torch.float16)


@pytest.mark.parametrize("device", DEVICES)
def test_a_dimension_of_one_token_per_sequence(device: str) -> None:
    lengths = [37, 5]
    q, cache, table = (x.to(device) for x in made(lengths, 16, torch.bfloat16))
    ends = torch.tensor(lengths, dtype=torch.int32, device=device)
    expected = call(q, cache, table, ends, return_lse=True)
    got = call(q[:, None], cache, table, ends, return_lse=True)
    assert torch.equal(got[0], expected[0][:, None]) and torch.equal(got[1], expected[1][:, None])
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="page_table has another shape"):
        call(q.reshape(1, 2, 16, 576), cache, table, ends)
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="seq_lens has another shape"):
        call(q.reshape(1, 2, 16, 576), cache, table[:1], ends)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [0, 2, 5])
def test_several_new_tokens_per_sequence(device: str, dtype: Any, count: int) -> None:
    """Each sees the keys up to its own; a sequence may be shorter than its new tokens."""
    lengths = [37, 3, 0]
    _, cache, table = (x.to(device) for x in made(lengths, 1, dtype))
    q = torch.randn(3, count, 6, 576).to(device, dtype)
    ends = torch.tensor(lengths, dtype=torch.int64, device=device)
    o, lse = call(q, cache, table, ends, return_lse=True)
    assert o.shape == (3, count, 6, 512) and lse.shape == (3, count, 6)
    for i in range(count):
        own = (ends - count + 1 + i).clamp(min=0)
        alone = call(q[:, i].contiguous(), cache, table, own, return_lse=True)
        if device == "cpu":
            assert torch.equal(o[:, i], alone[0]) and torch.equal(lse[:, i], alone[1])
        else:  # another problem: a GPU may divide its keys otherwise
            torch.testing.assert_close(o[:, i], alone[0])
            torch.testing.assert_close(lse[:, i], alone[1])
    out = torch.empty_like(o), torch.empty_like(lse)
    assert call(q, cache, table, ends, return_lse=True, out=out) is out
    assert torch.equal(out[0], o) and torch.equal(out[1], lse)
    shared = call(q, cache, table[:1], ends.clamp(max=3), return_lse=True)
    each = call(q, cache, table[:1].repeat(3, 1), ends.clamp(max=3), return_lse=True)
    assert torch.equal(shared[0], each[0]) and torch.equal(shared[1], each[1])


def test_several_new_tokens_in_numpy_and_in_a_graph() -> None:
    lengths = [37, 3]
    _, cache, table = made(lengths, 1, torch.float32)
    q, ends = torch.randn(2, 3, 6, 576), torch.tensor(lengths)
    want = call(q, cache, table, ends)
    arrays = (x.numpy() for x in (q, cache, table, ends))
    assert torch.equal(torch.from_numpy(call(*arrays)), want)
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=True)
    assert torch.equal(compiled(q, cache, table, ends), want)
    assert torch.equal(compiled(q[:, :2], cache, table, ends - 1), want[:, :2])


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


def test_a_scale_of_0_weighs_keys_alike() -> None:
    q, cache, table = made([5], 2, torch.float32)
    parts = q[..., :512], q[..., 512:], cache[..., :512], cache[..., 512:], table
    lengths = torch.tensor([5], dtype=torch.int32)
    latents = cache[table[0].long(), :, :512].reshape(-1, 512)[:5]
    for zero in (0.0, torch.tensor(0.0)):
        o = dlblas.mla_decode(*parts, lengths, scale=zero)
        torch.testing.assert_close(o, latents.mean(0).expand_as(o), rtol=1e-5, atol=1e-6)
    dlblas.mla_decode(*parts, lengths, scale=-0.5)


def test_what_a_cpu_refuses() -> None:
    q, cache, table = made([5], 2, torch.float32)
    assert call(q, cache, table, torch.tensor([16], dtype=torch.int32)).shape == (1, 2, 512)
    for lengths, other, named in (([17], table, "seq_lens"), ([5], table + 3, "page_table")):
        with pytest.raises(dlblas.errors.ArgumentError, match=f"{named} is out of bounds"):
            call(q, cache, other, torch.tensor(lengths, dtype=torch.int32))


CODES = [torch.float8_e4m3fn, torch.float8_e5m2]
SCALES = [(None, None), (0.25, None), (None, 0.5), (0.25, 0.25), (0.7, 1.3), (1e-30, 0.5)]


def factors(scales: tuple[float | None, ...]) -> Any:
    """What the scales make of a key's columns, in f64."""
    pairs = zip((512, 64), scales, strict=True)
    return torch.cat([torch.full((n,), 1.0 if s is None else s).double() for n, s in pairs])


def given(scales: tuple[float | None, ...], device: str = "cpu") -> dict[str, Any]:
    names = zip(("ckv_scale", "kpe_scale"), scales, strict=True)
    return {name: torch.tensor(s, device=device) for name, s in names if s is not None}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_caches_of_codes(device: str, dtype: Any, codes: Any, scales: Any) -> None:
    """As store_mla_cache writes them, and read back with the same scales."""
    lengths = [37, 0, 5, 64]
    q, cache, table = made(lengths, 5, dtype)
    written = torch.zeros(cache.shape, dtype=codes)
    pair = [None if s is None else torch.tensor(s) for s in scales]
    rows = cache.reshape(-1, 576)
    at = torch.arange(len(rows))
    dlblas.store_mla_cache(
        rows[:, :512], rows[:, 512:], written[..., :512], written[..., 512:], at, *pair
    )
    want = expected(q, written.double() * factors(scales), table, lengths, 0.1)
    ends = torch.tensor(lengths, dtype=torch.int32)
    there = [x.to(device) for x in (q, written, table, ends)]
    agree(call(*there, scale=0.1, return_lse=True, **given(scales, device)), want, dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("heads", [3, 16, 128])
@pytest.mark.parametrize("scales", SCALES[1:])
def test_scales_of_caches_that_hold_no_codes(
    device: str, heads: int, dtype: Any, scales: Any
) -> None:
    lengths = [37, 0, 5, 200]
    q, cache, table = made(lengths, heads, dtype)
    want = expected(q, cache.double() * factors(scales), table, lengths, 0.1)
    ends = torch.tensor(lengths, dtype=torch.int32)
    there = [x.to(device) for x in (q, cache, table, ends)]
    agree(call(*there, scale=0.1, return_lse=True, **given(scales, device)), want, dtype)


def spoiled(cache: Any, table: Any, lengths: list[int]) -> tuple[Any, Any]:
    """Codes of NaN and infinities in what no token sees, and entries that name no page."""
    page = cache.shape[1]
    stale = torch.ones(cache.shape[:2], dtype=torch.bool)
    table = table.clone()
    for b, length in enumerate(lengths):
        at = torch.arange(length)
        stale[table[b, at // page].long(), at % page] = False
        table[b, -(-length // page) :] = 2**31 - 1
    codes = cache.view(torch.uint8)
    worst = torch.tensor([0x7F, 0xFF, 0x7C, 0xFC], dtype=torch.uint8)
    codes[stale] = worst.repeat(576 // 4).expand(int(stale.sum()), 576)
    return codes.view(cache.dtype), table


@pytest.mark.gpu
@pytest.mark.parametrize("implementation", GPU_IMPLEMENTATIONS)
@pytest.mark.parametrize("codes, dtype, scales", [
    (torch.float8_e4m3fn, torch.bfloat16, (None, None)),
    (torch.float8_e5m2, torch.bfloat16, (0.7, 1.3)),
    (torch.float8_e4m3fn, torch.float16, (1.3, 0.7)),
    (torch.float8_e5m2, torch.float16, (None, None)),
])  # fmt: skip
@pytest.mark.parametrize("page", [1, 7, 64])
def test_codes_that_no_token_sees(
    implementation: str, codes: Any, dtype: Any, scales: Any, page: int
) -> None:
    lengths = [37, 0, 1, 48, 64, 200, 1003]
    for heads in (1, 16, 40, 128):
        q, cache, table = made(lengths, heads, dtype, page, seed=heads)
        cache = (cache * 0.5).to(codes)
        want = expected(q, cache.double() * factors(scales), table, lengths, 0.1)
        cache, table = spoiled(cache, table, lengths)
        ends = torch.tensor(lengths, dtype=torch.int32)
        there = [x.cuda() for x in (q, cache, table, ends)]
        with dlblas.pinned("mla_decode_lse", implementation):
            got = call(*there, scale=0.1, return_lse=True, **given(scales, "cuda"))
        agree(got, want, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("rows, keys, stages, blocks", [
    (16, 64, 2, 1), (16, 64, 3, 1), (32, 32, 2, 2), (32, 64, 4, 1), (64, 32, 3, 1), (64, 64, 2, 1),
])  # fmt: skip
def test_codes_in_other_configurations(rows: int, keys: int, stages: int, blocks: int) -> None:
    lengths = [37, 0, 1, 700, 64]
    q, cache, table = made(lengths, 40, torch.bfloat16)
    cache = cache.to(torch.float8_e4m3fn)
    want = expected(q, cache.double(), table, lengths, 0.1)
    cache, table = spoiled(cache, table, lengths)
    there = [x.cuda() for x in (q, cache, table, torch.tensor(lengths, dtype=torch.int32))]
    config = f"rows={rows} keys={keys} stages={stages} blocks={blocks}"
    with dlblas.pinned("mla_decode_lse", "cuda_decode", config):
        agree(call(*there, scale=0.1, return_lse=True), want, torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("implementation", GPU_IMPLEMENTATIONS)
@pytest.mark.parametrize("heads", [16, 128])
def test_a_captured_graph_of_codes_serves_other_lengths(implementation: str, heads: int) -> None:
    lengths = [700, 33, 512]
    q, cache, table = made(lengths, heads, torch.bfloat16)
    cache = cache.to(torch.float8_e4m3fn)
    there = [x.cuda() for x in (q, cache, table, torch.tensor(lengths, dtype=torch.int32))]
    scales = given((0.7, 1.3), "cuda")
    with dlblas.pinned("mla_decode_lse", implementation):
        call(*there, **scales)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = call(*there, return_lse=True, **scales)
        for now, pair in (
            (lengths, (0.7, 1.3)), ([1, 0, 17], (0.7, 1.3)), ([650, 30, 500], (0.5, 0.1)),
        ):  # fmt: skip
            there[3].copy_(torch.tensor(now, dtype=torch.int32))
            for scale, value in zip(scales.values(), pair, strict=True):
                scale.fill_(value)
            graph.replay()
            keys = cache.double() * factors(pair)
            agree(got, expected(q, keys, table, now, 576**-0.5), torch.bfloat16)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scales", [(None, None), (0.7, 1.3)])
@pytest.mark.parametrize("heads", [16, 40])
def test_queries_of_all_sizes_by_codes(device: str, heads: int, scales: Any) -> None:
    """Some rows of bf16 that f16 holds exactly, times a power of 2, and some that it does not."""
    lengths = [37, 0, 200]
    q, cache, table = made(lengths, heads, torch.bfloat16)
    cache[..., 0] = cache[..., 570] = 0
    cache = cache.to(torch.float8_e4m3fn)
    q[:, heads // 2 :] *= 2.0**-100  # alone, all scores are 0
    q[0, 3] = 0
    wide = q * 1e-6
    wide[2, 7, 0] = wide[2, 9, 570] = 3e4
    wide[0, 1, 0] = 2.0**-130
    ends = torch.tensor(lengths, dtype=torch.int32)
    for rows, scale in ((q, 0.1), (q * 2.0**90, 0.1 * 2.0**-90), (wide, 1e5)):
        want = expected(rows, cache.double() * factors(scales), table, lengths, scale)
        there = [x.to(device) for x in (rows, cache, table, ends)]
        for implementation in [None] if device == "cpu" else GPU_IMPLEMENTATIONS:
            pin = dlblas.pinned("mla_decode_lse", implementation) if implementation else None
            with pin or contextlib.nullcontext():
                got = call(*there, scale=scale, return_lse=True, **given(scales, device))
            agree(got, want, torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("codes", CODES)
def test_codes_that_a_token_sees_are_numbers(codes: Any) -> None:
    """NaN in either part of a key reaches everything."""
    q, cache, table = made([70], 16, torch.bfloat16)
    for column in (100, 520):
        seen = cache.to(codes)
        seen.view(torch.uint8)[table[0, 3], 5, column] = 0x7F
        there = [x.cuda() for x in (q, seen, table, torch.tensor([70], dtype=torch.int32))]
        for implementation in GPU_IMPLEMENTATIONS:
            with dlblas.pinned("mla_decode_lse", implementation):
                o, lse = call(*there, return_lse=True)
            assert o.isnan().all() and lse.isnan().all(), (implementation, column)


def test_what_reads_codes() -> None:
    """Every CUDA implementation of q's 16 bits; the general one of f32, and the same bits."""
    q, cache, table = made([5], 2, torch.bfloat16)
    ends = torch.tensor([5], dtype=torch.int32)
    codes = cache.to(torch.float8_e4m3fn)
    with pytest.raises(dlblas.errors.UnsupportedDtypeError, match="kpe_cache has dtype bf16"):
        dlblas.mla_decode(
            q[..., :512], q[..., 512:], codes[..., :512], cache[..., 512:], table, ends
        )

    def serving(q: Any, cache: Any, **more: Any) -> list[str]:
        args = q[..., :512], q[..., 512:], cache[..., :512], cache[..., 512:], table, ends
        found = dlblas.explain("mla_decode_lse", *args, device="sm_90a", **more).as_dict()
        rows = [one for one in found["candidates"] if one["implementation"].startswith("cuda")]
        return [one["implementation"] for one in rows if one["supports"]]

    scale = {"ckv_scale": torch.tensor(2.0)}
    for more in ({}, scale):
        assert serving(q, codes, **more) == GPU_IMPLEMENTATIONS
        assert serving(q.float(), codes, **more) == ["cuda_rows"]
        with dlblas.deterministic():
            assert serving(q, codes, **more) == ["cuda_rows"]
    assert serving(q, cache, **scale) == GPU_IMPLEMENTATIONS
