"""paged_attention beyond the cases that all operators have: unseen slots may hold anything, tables
in two forms, layouts, graphs replayed with other lengths, caches beyond 2³¹ elements.

Read next: ops/attention/paged_attention_lse/, tests/test_cases.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from attention_wgmma import on_wgmma
from dlblas import errors

torch = pytest.importorskip("torch")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


class Cache:
    """Pages of random keys and values in any order, and attention over them in f64."""

    def __init__(
        self, device: str, dtype: Any, lengths: list[int], heads: int, kv_heads: int, depth: int,
        page: int, width: int | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        draw = torch.Generator().manual_seed(seed)
        self.device, self.dtype, self.lengths, self.page = device, dtype, lengths, page
        self.heads, self.kv_heads, self.depth = heads, kv_heads, depth
        counts = [-(-n // page) for n in lengths]
        total = sum(counts) + 3
        order = torch.randperm(total, generator=draw, dtype=torch.int32)
        self.table = torch.zeros(len(lengths), max([*counts, 1]), dtype=torch.int32)
        used = 0
        for b, count in enumerate(counts):
            self.table[b, :count] = order[used : used + count]
            used += count
        shape = (total, page, kv_heads)
        self.k = torch.randn(*shape, depth, generator=draw).to(dtype)
        self.v = torch.randn(*shape, width or depth, generator=draw).to(dtype)
        self.draw = draw

    def queries(self, count: int) -> Any:
        return torch.randn(count, self.heads, self.depth, generator=self.draw).to(self.dtype)

    def keys(self, b: int, cache: Any) -> Any:
        at = torch.arange(self.lengths[b])
        return cache[self.table[b, at // self.page].long(), at % self.page].double()

    def expected(self, q: Any, rows: list[int], window: int | None = None) -> Any:
        """o and lse in f64, one sequence after another; ``rows`` holds the rows of each."""
        group, done = self.heads // self.kv_heads, 0
        o = torch.zeros(len(q), self.heads, self.v.shape[-1], dtype=torch.float64)
        lse = torch.full((len(q), self.heads), -torch.inf, dtype=torch.float64)
        for b, count in enumerate(rows):
            if not count or not self.lengths[b]:
                done += count
                continue
            k = self.keys(b, self.k).repeat_interleave(group, 1)
            v = self.keys(b, self.v).repeat_interleave(group, 1)
            s = torch.einsum("qhd,khd->qhk", q[done : done + count].double(), k) / self.depth**0.5
            at = self.lengths[b] - count + torch.arange(count)
            keys = torch.arange(self.lengths[b])
            hidden = keys[None] > at[:, None]
            if window is not None:
                hidden |= keys[None] < at[:, None] - window
            s = s.masked_fill(hidden[:, None], -torch.inf)
            sums = torch.logsumexp(s, -1)
            p = torch.exp(s - sums.masked_fill(sums == -torch.inf, 0)[..., None])
            o[done : done + count] = torch.einsum("qhk,khd->qhd", p, v)
            lse[done : done + count] = sums
            done += count
        return o, lse

    def call(self, q: Any, rows: list[int] | None = None, **more: Any) -> Any:
        starts = None
        if rows is not None:
            starts = torch.tensor([0, *np.cumsum(rows)], dtype=torch.int32).to(self.device)
        lengths = torch.tensor(self.lengths, dtype=torch.int32)
        return dlblas.paged_attention(
            *(x.to(self.device) for x in (q, self.k, self.v, self.table, lengths)),
            cu_seqlens_q=starts, return_lse=True, **more,
        )  # fmt: skip


def agree(got: Any, expected: Any, dtype: Any) -> None:
    least = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    o, lse = (x.cpu().double() for x in got)
    assert torch.equal(torch.isinf(lse), torch.isinf(expected[1]))
    torch.testing.assert_close(o, expected[0], atol=least, rtol=least)
    seen = ~torch.isinf(lse)
    torch.testing.assert_close(lse[seen], expected[1][seen], atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth", [64, 72, 128, 256])
@pytest.mark.parametrize("rows", [None, [5, 0, 1, 17, 3]])
def test_what_no_row_sees_may_hold_anything(
    device: str, dtype: Any, depth: int, rows: list[int] | None
) -> None:
    """NaN and infinity in the slots beyond a sequence's end and in pages that no sequence uses."""
    cache = Cache(device, dtype, [37, 0, 1, 64, 333], 8, 2, depth, 16)
    stale = torch.ones(cache.k.shape[:2], dtype=torch.bool)
    for b, length in enumerate(cache.lengths):
        at = torch.arange(length)
        stale[cache.table[b, at // 16].long(), at % 16] = False
    q = cache.queries(5 if rows is None else sum(rows))
    expected = cache.expected(q, rows or [1] * 5)
    cache.k[stale], cache.v[stale] = torch.nan, torch.inf
    agree(cache.call(q, rows), expected, dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", [1, 3])
def test_sequences_and_their_tokens_as_two_dimensions(device: str, count: int) -> None:
    """q [B, S, H, D] gives the bits of q [B · S, H, D] with rows in the same places."""
    cache = Cache(device, torch.bfloat16, [37, 3, 64], 8, 2, 64, 16)
    q = cache.queries(3 * count)
    o, lse = cache.call(q, [count] * 3)
    got = cache.call(q.reshape(3, count, 8, 64))
    assert torch.equal(got[0], o.reshape(3, count, 8, 64))
    assert torch.equal(got[1], lse.reshape(3, count, 8))
    for wrong, rows in ((q.reshape(3 * count, 1, 8, 64), None), (q[:3, None], [1] * 3)):
        if rows is None and count == 1:
            continue
        with pytest.raises(errors.ShapeMismatchError, match="q has another shape"):
            cache.call(wrong, rows)


def test_sequences_and_their_tokens_in_numpy() -> None:
    cache = Cache("cpu", torch.float32, [37, 20], 4, 2, 32, 16)
    q = cache.queries(4)
    expected = cache.call(q, [2, 2])[0]
    lengths = np.array(cache.lengths, "i4")
    arrays = (x.numpy() for x in (q.reshape(2, 2, 4, 32), cache.k, cache.v, cache.table))
    got = dlblas.paged_attention(*arrays, lengths)
    np.testing.assert_array_equal(got, expected.reshape(2, 2, 4, 32).numpy())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("depth", [40, 128])
def test_pages_left_of_a_window_may_be_gone(device: str, depth: int) -> None:
    cache = Cache(device, torch.bfloat16, [300, 77, 5], 4, 2, depth, 16)
    q = cache.queries(3)
    expected = cache.expected(q, [1] * 3, window=50)
    for b, length in enumerate(cache.lengths):
        gone = max(0, length - 1 - 50) // 16
        cache.k[cache.table[b, :gone].long()] = torch.nan
        cache.v[cache.table[b, :gone].long()] = torch.nan
        cache.table[b, :gone] = 2**30  # no page: reading it would be an access out of bounds
    agree(cache.call(q, window=50), expected, torch.bfloat16)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_pages_by_indptr_and_indices(device: str, dtype: Any) -> None:
    cache = Cache(device, dtype, [37, 0, 16, 1], 6, 2, 64, 8)
    counts = [-(-n // 8) for n in cache.lengths]
    indptr = torch.tensor([0, *np.cumsum(counts)], dtype=torch.int32)
    indices = torch.cat([cache.table[b, :n] for b, n in enumerate(counts)])
    last = torch.tensor(
        [n - (c - 1) * 8 if n else 0 for n, c in zip(cache.lengths, counts, strict=True)]
    )
    q = cache.queries(4)
    table = tuple(x.to(device) for x in (indptr, indices, last.int()))
    got = dlblas.paged_attention(
        *(x.to(device) for x in (q, cache.k, cache.v)), table, return_lse=True
    )
    agree(got, cache.expected(q, [1] * 4), dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [None, [5, 0, 1, 17, 3]], ids=str)
def test_indices_of_i64(device: str, dtype: Any, rows: list[int] | None) -> None:
    cache = Cache(device, dtype, [37, 0, 1, 64, 333], 8, 2, 64, 16)
    q = cache.queries(5 if rows is None else sum(rows)).to(device)
    lists = [cache.table.to(device), torch.tensor(cache.lengths, dtype=torch.int32, device=device)]
    if rows is not None:
        starts = [0, *np.cumsum(rows)]
        lists.append(torch.tensor(starts, dtype=torch.int32, device=device))
    k, v = cache.k.to(device), cache.v.to(device)
    expected = dlblas.paged_attention(q, k, v, *lists[:2], cu_seqlens_q=[*lists, None][2])
    for i in range(len(lists)):  # each by itself, then all together
        lists[i] = lists[i].long()
        got = dlblas.paged_attention(q, k, v, *lists[:2], cu_seqlens_q=[*lists, None][2])
        assert torch.equal(got, expected)
    spread = [x.repeat_interleave(3, -1)[..., ::3] for x in lists]
    got = dlblas.paged_attention(q, k, v, *spread[:2], cu_seqlens_q=[*spread, None][2])
    assert torch.equal(got, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_pages_by_indptr_of_i64(device: str) -> None:
    given = {
        name: x.to(device) if torch.is_tensor(x) else x for name, x in by_pages([16, 3]).items()
    }
    lists = [x.to(device) for x in given["page_table"]]
    expected = dlblas.paged_attention(**{**given, "page_table": tuple(lists)})
    for i in range(3):
        lists[i] = lists[i].long()
        assert torch.equal(
            dlblas.paged_attention(**{**given, "page_table": tuple(lists)}), expected
        )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_layouts(device: str, layout: str) -> None:
    cache = Cache(device, torch.bfloat16, [37, 90], 8, 2, 64, 16)
    q = cache.queries(2)
    expected = cache.expected(q, [1, 1])
    if layout == "HND":
        cache.k = cache.k.transpose(1, 2).contiguous()
        cache.v = cache.v.transpose(1, 2).contiguous()
    agree(cache.call(q, layout=layout), expected, torch.bfloat16)
    with pytest.raises(dlblas.errors.ArgumentError, match="layout is not offered"):
        cache.call(q, layout="DHN")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_caches_of_eight_bits(device: str, kind: Any, dtype: Any) -> None:
    cache = Cache(device, dtype, [37, 700, 3], 8, 2, 128, 16)
    q = cache.queries(3)
    codes = [x.float().to(kind) for x in (cache.k, cache.v)]
    cache.k, cache.v = (x.float() * s for x, s in zip(codes, (0.5, 3.0), strict=True))
    expected = cache.expected(q, [1] * 3)
    cache.k, cache.v = codes
    scales = [torch.tensor(s, device=device) for s in (0.5, 3.0)]
    o, lse = cache.call(q, k_scale=scales[0], v_scale=scales[1])
    agree((o / 3, lse), (expected[0] / 3, expected[1]), dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("implementation", ["cuda_decode", "cuda_rows"])
def test_a_captured_graph_serves_other_lengths(implementation: str) -> None:
    cache = Cache("cuda", torch.bfloat16, [900, 40, 513], 8, 2, 128, 16)
    q = cache.queries(3)
    inputs = [x.cuda() for x in (q, cache.k, cache.v, cache.table)]
    lengths = torch.tensor(cache.lengths, dtype=torch.int32, device="cuda")
    with dlblas.pinned("paged_attention_lse", implementation):
        dlblas.paged_attention(*inputs, lengths)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = dlblas.paged_attention(*inputs, lengths, return_lse=True)
        for now in ([900, 40, 513], [1, 0, 17], [256, 33, 500]):
            cache.lengths = now
            lengths.copy_(torch.tensor(now, dtype=torch.int32))
            graph.replay()
            agree(got, cache.expected(q, [1] * 3), torch.bfloat16)


WGMMA = "groups=2 keys=128 stages=2 queries=1 turns=0 persistent=1 draws="


@pytest.mark.gpu
@pytest.mark.parametrize("draws", ["0", "1"])
@pytest.mark.parametrize("page", [1, 16, 64])
def test_chunks_in_a_captured_graph(draws: str, page: int) -> None:
    """Rows before the first sequence and after the last, pages left of a window that may be gone,
    sinks; each replay has other lengths and chunks."""
    cache = Cache("cuda", torch.bfloat16, [900, 40, 513], 8, 2, 128, page)
    q = cache.queries(420)
    inputs = [x.cuda() for x in (q, cache.k, cache.v, cache.table)]
    lengths = torch.tensor(cache.lengths, dtype=torch.int32, device="cuda")
    ends = torch.tensor([10, 200, 240, 400], dtype=torch.int32, device="cuda")
    sinks = torch.linspace(-1, 3, 8, device="cuda")
    table = inputs[3]

    def call() -> Any:
        return dlblas.paged_attention(
            *inputs, lengths, cu_seqlens_q=ends, window=100, sinks=sinks, return_lse=True
        )

    with dlblas.pinned("paged_attention_lse", "cuda_wgmma", WGMMA + draws):
        call()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o, lse = call()
        for now, at in (
            ([900, 40, 513], [10, 200, 240, 400]),
            ([1, 0, 17], [0, 1, 1, 18]),
            ([256, 33, 500], [3, 5, 5, 420]),
        ):
            cache.lengths = now
            rows = [at[i + 1] - at[i] for i in range(3)]
            expected_o, expected = cache.expected(q[at[0] : at[3]], rows, window=100)
            seen = expected > -torch.inf
            with_sink = torch.logaddexp(expected, sinks.cpu().double())
            share = torch.where(seen, (expected - with_sink).exp(), 0.0)
            lengths.copy_(torch.tensor(now, dtype=torch.int32))
            ends.copy_(torch.tensor(at, dtype=torch.int32))
            table.copy_(cache.table)
            for b, (length, count) in enumerate(zip(now, rows, strict=True)):
                gone = max(0, length - count - 100) // page
                table[b, :gone] = -(2**31)
                table[b, -(-length // page) :] = 2**31 - 1
            graph.replay()
            part = slice(at[0], at[3])
            agree((o[part], lse[part]), (expected_o * share[..., None], with_sink), torch.bfloat16)
            outside = torch.ones(len(q), dtype=torch.bool)
            outside[part] = False
            assert (o.cpu()[outside] == 0).all() and (lse.cpu()[outside] == -torch.inf).all()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn])
@pytest.mark.parametrize("page", [1, 16, 64])
@pytest.mark.parametrize(("depth", "width"), [(192, 128), (96, 96), (192, 192), (64, 112)])
def test_chunks_of_other_heads(depth: int, width: int, page: int, kind: Any) -> None:
    """Slots past the last key are NaN, and so are pages that no sequence has."""
    if page == 1 and kind != torch.bfloat16 and min(depth, width) <= 64:
        pytest.skip("such a page is too short to copy")
    if kind != torch.bfloat16 and (depth, width) == (192, 192):
        pytest.skip("no block fits shared memory")
    cache = Cache("cuda", torch.bfloat16, [900, 40, 513], 8, 2, depth, page, width)
    rows = [190, 40, 130]
    q = cache.queries(sum(rows))
    codes = [t.to(kind) for t in (cache.k, cache.v)]
    cache.k, cache.v = (t.to(torch.bfloat16) for t in codes)
    windows = [None, 100]
    expected = [cache.expected(q, rows, window) for window in windows]
    there = torch.zeros(cache.k.shape[:2], dtype=torch.bool)
    for b, length in enumerate(cache.lengths):
        at = torch.arange(length)
        there[cache.table[b, at // page].long(), at % page] = True
    for code in codes:
        code.view(torch.uint8 if kind != torch.bfloat16 else torch.int16)[~there] = (
            0x7F if kind != torch.bfloat16 else 0x7FC0
        )
    cache.k, cache.v = codes
    for window, wanted in zip(windows, expected, strict=True):
        with on_wgmma("paged_attention_lse"):
            agree(cache.call(q, rows, window=window), wanted, torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("implementation", ["cuda_decode", "cuda_rows"])
def test_caches_beyond_two_to_the_31_elements(implementation: str) -> None:
    pages, page, heads, depth = 70_000, 32, 8, 128  # 2.3e9 elements, 4.6 GB each
    k = torch.zeros(pages, page, heads, depth, dtype=torch.bfloat16, device="cuda")
    v = torch.zeros_like(k)
    last = torch.randn(2, page, heads, depth, dtype=torch.bfloat16, device="cuda")
    k[-1], v[-1] = last[0], last[1]
    q = torch.randn(1, 32, depth, dtype=torch.bfloat16, device="cuda")
    table = torch.tensor([[pages - 1]], dtype=torch.int32, device="cuda")
    length = torch.tensor([page], dtype=torch.int32, device="cuda")
    with dlblas.pinned("paged_attention_lse", implementation):
        far = dlblas.paged_attention(q, k, v, table, length)
        near = dlblas.paged_attention(q, last[:1], last[1:], table * 0, length)
    assert torch.equal(far, near)
    assert far.abs().max() > 0


def test_caches_beyond_two_to_the_31_elements_on_a_cpu() -> None:
    pages, page, heads, depth = 70_000, 32, 8, 128  # 2.3e9 codes each, of which one page is touched
    k, v = (torch.empty(pages, page, heads, depth, dtype=torch.float8_e4m3fn) for _ in range(2))
    last = torch.randn(2, page, heads, depth).to(torch.float8_e4m3fn)
    k[-1], v[-1] = last[0], last[1]
    q = torch.randn(1, 32, depth)
    table, length = (torch.tensor(x, dtype=torch.int32) for x in ([[pages - 1]], [page]))
    far = dlblas.paged_attention(q, k, v, table, length)
    near = dlblas.paged_attention(q, last[:1], last[1:], table * 0, length)
    assert torch.equal(far, near)
    assert far.abs().max() > 0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sinks_have_the_dtype_of_q_or_f32(device: str, dtype: Any) -> None:
    cache = Cache(device, dtype, [37, 0, 64], 4, 2, 64, 16)
    q, sinks = cache.queries(3), torch.tensor([-1.5, 0.0, 2.25, 0.5])
    o, lse = cache.expected(q, [1] * 3)
    with_sink = torch.logaddexp(lse, sinks.double())
    agree(cache.call(q, sinks=sinks.to(device, dtype)), (o * (lse - with_sink).exp()[..., None],
          with_sink), dtype)  # fmt: skip
    got = cache.call(q, sinks=sinks.to(device, dtype))
    for mine, other in zip(got, cache.call(q, sinks=sinks.to(device)), strict=True):
        assert torch.equal(mine, other)
    assert torch.equal(got[1][1].cpu(), sinks) and not got[0][1].any()  # it sees nothing


def test_sinks_of_other_dtypes_are_refused() -> None:
    given = small(sinks=torch.zeros(4, dtype=torch.float16))
    for other in (given, small(sinks=np.zeros(4)), small(sinks=torch.zeros(4).double())):
        with pytest.raises(errors.UnsupportedDtypeError, match="sinks has"):
            dlblas.paged_attention(**other)
    learned = small(sinks=torch.zeros(4, requires_grad=True))
    with pytest.raises(errors.ArgumentError, match="sinks requires grad"):
        dlblas.paged_attention(**learned)
    halves = small(sinks=given["sinks"])
    halves.update((name, halves[name].half()) for name in ("q", "k_cache", "v_cache"))
    wanted = dlblas.paged_attention(**halves)
    compiled = torch.compile(dlblas.paged_attention, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(**halves), wanted)
    arrays = {name: x.numpy() for name, x in halves.items()}
    assert np.array_equal(dlblas.paged_attention(**arrays), wanted.numpy())


def test_no_heads_at_all() -> None:
    given = small(q=torch.zeros(2, 0, 16), k_cache=torch.zeros(5, 16, 0, 16))
    o, lse = dlblas.paged_attention(**{**given, "v_cache": given["k_cache"]}, return_lse=True)
    assert o.shape == (2, 0, 16) and lse.shape == (2, 0)
    with pytest.raises(errors.ShapeMismatchError, match=r"q has size 4 .*; expected 0 \(Hkv\*G"):
        dlblas.paged_attention(**small(k_cache=given["k_cache"], v_cache=given["k_cache"]))


def test_rows_without_offsets_are_one_a_sequence() -> None:
    cache = Cache("cpu", torch.float32, [3, 4], 2, 1, 8, 4)
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="one a sequence"):
        cache.call(cache.queries(3))


def small(**other: Any) -> dict[str, Any]:
    q, cache = torch.randn(2, 4, 16), torch.randn(5, 16, 2, 16)
    table = torch.tensor([[0, 1], [2, 3]], dtype=torch.int32)
    given = {"q": q, "k_cache": cache, "v_cache": cache, "page_table": table}
    return {**given, "seq_lens": torch.tensor([20, 3], dtype=torch.int32), **other}


def by_pages(last: list[int]) -> dict[str, Any]:
    indptr, indices, last_page = (
        torch.tensor(x, dtype=torch.int32) for x in ([0, 2, 3], [0, 1, 2], last)
    )
    return small(page_table=(indptr, indices, last_page), seq_lens=None)


@pytest.mark.parametrize(
    ("other", "error", "words"),
    [
        ({"window": -1}, errors.ArgumentError, "window is out of range; expected 0 or more"),
        ({"window": (3, 0)}, errors.ArgumentTypeError, "window is no number of keys"),
        ({"q": None}, errors.ArgumentTypeError, "q is no array; expected"),
        ({"page_table": None}, errors.ArgumentTypeError, "page_table is no array"),
        ({"k_cache": None, "layout": "HND"}, errors.ArgumentTypeError, "k_cache is no array"),
        ({"v_cache": None, "layout": "HND"}, errors.ArgumentTypeError, "v_cache is no array"),
        ({"v_cache": torch.ones(5, 2), "layout": "HND"}, errors.ShapeMismatchError, "v_cache has"),
    ],
)
def test_what_is_refused(other: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"paged_attention: {words}"):
        dlblas.paged_attention(**small(**other))


def test_tables_that_are_no_three_vectors() -> None:
    indptr, indices, last = by_pages([16, 3])["page_table"]
    for bad in ((indptr, indices), (None,) * 3, (indptr, indices, None), (indptr, indices, 3)):
        with pytest.raises(errors.ArgumentTypeError, match="page_table has another form; expected"):
            dlblas.paged_attention(**small(page_table=bad, seq_lens=None))
    with pytest.raises(errors.ArgumentError, match="seq_lens is given twice"):
        dlblas.paged_attention(**small(page_table=(indptr, indices, last)))
    with pytest.raises(errors.ShapeMismatchError, match="last_page_len has another shape"):
        dlblas.paged_attention(**small(page_table=(indptr, indices, last[:1]), seq_lens=None))


@pytest.mark.parametrize("indptr", [[0, 2, 9], [0, 2, 1], [-1, 1, 3]])
def test_indptr_leads_into_the_indices(indptr: list[int]) -> None:
    torch = pytest.importorskip("torch")
    pages = [torch.tensor(n).int() for n in (indptr, [0, 1, 2], [1, 1])]
    cache = torch.randn(4, 4, 2, 16)
    with pytest.raises(errors.ArgumentError, match="indptr is out of range; expected numbers from"):
        dlblas.paged_attention(torch.randn(2, 4, 16), cache, cache, tuple(pages))


@pytest.mark.parametrize("last", [[20, 3], [16, -1]], ids=str)
def test_a_last_page_has_a_pages_keys_at_most(last: list[int]) -> None:
    dlblas.paged_attention(**by_pages([16, 1]))
    given = by_pages([0, 0])
    o, lse = dlblas.paged_attention(**given, return_lse=True)
    table = {"page_table": torch.tensor([[0, 1], [2, 0]]).int()}
    length = {"seq_lens": torch.tensor([16, 0]).int()}
    one = dlblas.paged_attention(**{**given, **table, **length}, return_lse=True)
    assert torch.equal(lse[0], one[1][0]) and torch.isinf(lse[1]).all() and not o[1].any()
    given = by_pages(last)
    with pytest.raises(
        errors.ArgumentError, match="last_page_len is out of range; expected 0 to 16, "
    ):
        dlblas.paged_attention(**given)
    arrays = {k: v.numpy() for k, v in given.items() if isinstance(v, torch.Tensor)}
    arrays["page_table"] = tuple(t.numpy() for t in given["page_table"])
    with pytest.raises(errors.ArgumentError, match="last_page_len is out of range"):
        dlblas.paged_attention(**arrays)


def test_vectors_of_pages_of_another_dtype() -> None:
    q, cache = torch.randn(2, 4, 16), torch.randn(3, 4, 2, 16)
    parts = [torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.tensor([2, 3])]
    for i in range(3):
        wrong = [x.float() if j == i else x for j, x in enumerate(parts)]
        with pytest.raises(dlblas.Error, match="paged_attention: page_table ") as refused:
            dlblas.paged_attention(q, cache, cache, tuple(wrong))
        assert refused.value.argument == "page_table"
