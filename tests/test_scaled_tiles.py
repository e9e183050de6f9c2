"""Products of codes by AMX tiles (``cpu_amx``): i8 is exact in every layout, tail and configuration
and beyond the depth where i32 overflows; f8 with one order of sums, blocks, and what is chosen.

Read next: ops/gemm/scaled/scaled_amx.cpp, test_scaled_vnni.py.
"""

from __future__ import annotations

import itertools
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.harness import abi

torch = pytest.importorskip("torch")

CHANNEL, BLOCK, AMX = "scaled_mm_channel", "scaled_mm_block", "cpu_amx"
CPU = dlblas.info()["devices"][0]
pytestmark = pytest.mark.skipif(not CPU["amx"], reason="no AMX here")
# Less than a tile, whole tiles, one more; K = 0, partial chunks, scale groups, steps and K blocks;
# one span of f32 sums and more; more rows than the scratch memory holds.
SHAPES = [
    (1, 1, 1), (1, 64, 64), (3, 0, 5), (5, 33, 7), (16, 32, 64), (16, 4160, 200), (17, 31, 65),
    (33, 100, 100), (40, 9000, 40), (64, 4096, 300), (70, 1000, 257), (200, 700, 70),
    (1100, 20, 33), (33, 70, 1100),
]  # fmt: skip
LAYOUTS = ("rows", "columns", "gaps")
F8 = torch.float8_e4m3fn


def codes(kind: str, *shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if kind == "i8":
        return torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator)
    return torch.randn(shape, generator=generator).to(F8)


def lying(t: Any, layout: str) -> Any:
    """The same values: row-major, column-major, with gaps."""
    if layout == "columns":
        return t.t().contiguous().t()
    if layout == "gaps":
        wide = torch.zeros(2 * t.shape[0], 3 * t.shape[1], dtype=torch.uint8).view(t.dtype)
        wide[::2, ::3] = t
        return wide[::2, ::3]
    return t.contiguous()


def scales(op: str, m: int, k: int, n: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(m + n)
    groups, strips = -(-k // 128), -(-n // 128)
    if op == CHANNEL:
        return torch.rand(m, 1, generator=generator), torch.rand(n, generator=generator)
    return torch.rand(m, groups, generator=generator), torch.rand(
        groups, strips, generator=generator
    )


def call(
    op: str, a: Any, b: Any, of: tuple[Any, Any], config: str | None = None, **more: Any
) -> Any:
    with dlblas.pinned(op, AMX, config):
        return getattr(dlblas, op)(a, b, *of, **{"out_dtype": "f32", **more})


def exact(op: str, a: Any, b: Any, of: tuple[Any, Any]) -> tuple[Any, Any]:
    """The result in f64, and the sum of its terms' magnitudes, both scaled."""
    x, y = a.float().double(), b.float().double()
    if op == CHANNEL:
        factor = (of[0] * of[1]).double()
        return factor * (x @ y), factor * (x.abs() @ y.abs())
    total = torch.zeros(len(a), b.shape[1], dtype=torch.float64)
    size = total.clone()
    for g in range(of[0].shape[1]):
        k = slice(128 * g, 128 * (g + 1))
        columns = of[1][g].repeat_interleave(128)[: b.shape[1]]
        factor = (of[0][:, g : g + 1] * columns).double()
        total += factor * (x[:, k] @ y[k])
        size += factor * (x[:, k].abs() @ y[k].abs())
    return total, size


@pytest.mark.parametrize("op", [CHANNEL, BLOCK])
@pytest.mark.parametrize("kind", ["i8", "f8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_in_every_layout(shape: tuple[int, int, int], kind: str, op: str) -> None:
    m, k, n = shape
    a, b, of = codes(kind, m, k), codes(kind, k, n, seed=1), scales(op, m, k, n)
    want, size = exact(op, a, b, of)
    first = call(op, a, b, of)
    assert bool(((first.double() - want).abs() <= 2**-22 * size + 1e-30).all())
    for left, right in itertools.product(LAYOUTS, LAYOUTS):
        got = call(op, lying(a, left), lying(b, right), of)
        assert torch.equal(got, first), f"{left} × {right}: other bits"


def test_rows_and_columns_may_lie_backwards() -> None:
    a, b, of = (
        codes("i8", 40, 200),
        codes("i8", 200, 70, seed=1),
        scales(CHANNEL, 40, 200, 70),
    )
    want = call(CHANNEL, a, b, of)
    turned = [np.ascontiguousarray(t.numpy()[::-1, ::-1])[::-1, ::-1] for t in (a, b)]
    got = call(CHANNEL, *turned, tuple(s.numpy() for s in of))
    np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("k", [65535, 65536, 65537, 131072, 131073, 262147])
def test_no_sum_overflows(k: int, layout: str) -> None:
    """i32 holds 131071 products of the largest codes; with one more, +2^31 would wrap to −2^31."""
    low, high = (torch.full((3, k), v, dtype=torch.int8) for v in (-128, 127))
    a = torch.cat([low, high, codes("i8", 3, k)])
    b = torch.cat([low, high, codes("i8", 4, k, seed=2)]).t()
    ones = torch.ones(len(a), 1), torch.ones(b.shape[1])
    got = call(CHANNEL, a, lying(b, layout), ones)
    want = torch.zeros(len(a), b.shape[1], dtype=torch.float64)
    for at in range(0, k, 1 << 16):
        part = slice(at, at + (1 << 16))
        want += a[:, part].double() @ b[part].double()
    assert torch.equal(got, want.float())
    assert got[0, 0] == float(np.float32(k * 128 * 128))


def configs() -> list[str]:
    blocks = [(96, 128, 512), (192, 256, 1024), (384, 128, 512)]
    return [
        f"tile={tile} block_m={m} block_n={n} block_k={k} order={order} split={split} pack_a={pack}"
        for tile in ("32x32", "16x64", "64x16")
        for m, n, k in blocks
        for order, split, pack in (("rows", "columns", 1), ("columns", "rows", 1))
    ]


@pytest.mark.parametrize("op", [CHANNEL, BLOCK])
@pytest.mark.parametrize("kind", ["i8", "f8"])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_no_configuration_changes_a_bit(layout: str, kind: str, op: str) -> None:
    m, k, n = 400, 1500, 390
    of = scales(op, m, k, n)
    a, b = codes(kind, m, k), lying(codes(kind, k, n, seed=1), layout)
    want = call(op, a, b, of)
    tried = 0
    for config in configs():
        try:
            got = call(op, a, b, of, config)
        except dlblas.errors.UnsupportedError as error:
            assert "constraint" in str(error)
            continue
        tried += 1
        assert torch.equal(got, want), config
    assert tried >= 6
    if kind == "i8":  # read where they lie
        for k in (1472, 1500):
            whole = call(op, a[:, :k], b[:k], scales(op, m, k, n))
            got = call(op, a[:, :k], b[:k], scales(op, m, k, n), configs()[0][:-1] + "0")
            assert torch.equal(got, whole)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_i8_has_the_bits_of_the_other_levels(dtype: str) -> None:
    for m, k, n in ((1, 300, 70), (14, 515, 129), (130, 2000, 64)):
        a, b = codes("i8", m, k), codes("i8", k, n, seed=1).t().contiguous().t()
        rows, columns = scales(CHANNEL, m, k, n)
        bias = torch.randn(n, generator=torch.Generator().manual_seed(k))
        for of in ((rows, columns), (rows, columns[:1]), (rows[:1].expand(m, 1), columns)):
            got = []
            for level in (AMX, "cpu_avx512", "cpu_baseline"):
                with dlblas.pinned(CHANNEL, level):
                    y = dlblas.scaled_mm_channel(a, b, *of, bias=bias, out_dtype=dtype)
                    got.append(y.view(torch.uint8))
            assert all(torch.equal(y, got[0]) for y in got)


def test_every_code_of_f8_is_its_value() -> None:
    """One term each: every code times 1, including NaN and both zeros."""
    every = torch.arange(256, dtype=torch.uint8).view(F8)
    one = torch.ones(1, 1).to(F8)
    ones = torch.ones(256, 1), torch.ones(1)
    for a in (every.view(256, 1), every.view(1, 256).t()):
        got = call(CHANNEL, a, one, ones)[:, 0]
        assert torch.equal(got.nan_to_num(7e9), every.float().nan_to_num(7e9))
    got = call(CHANNEL, one, every.view(1, 256), (torch.ones(1, 1), torch.ones(256)))[0]
    assert torch.equal(got.nan_to_num(7e9), every.float().nan_to_num(7e9))


@pytest.mark.parametrize("op", [CHANNEL, BLOCK])
@pytest.mark.parametrize("threads", [1, 2, 3, 7, 16])
def test_any_threads_share_rows_and_columns(threads: int, op: str) -> None:
    for (m, n), layout in itertools.product(((300, 330), (5, 700), (700, 3)), ("rows", "columns")):
        a, b, of = codes("i8", m, 200), codes("i8", 200, n, seed=1), scales(op, m, 200, n)
        want, out = call(op, a, b, of), np.empty((m, n), "f")
        tensors = {"a": a, "b": lying(b, layout), "a_scale": of[0], "b_scale": of[1]}
        arrays = {name: t.numpy() for name, t in tensors.items()}
        with dlblas.pinned(op, AMX):
            abi.call(op, {**arrays, "out_dtype": "f32"}, [out], threads)
        np.testing.assert_array_equal(out, want.numpy())


def explained(op: str, kind: str, m: int) -> Any:
    a, b = codes(kind, m, 4096), codes(kind, 4096, 4096).t()
    return dlblas.explain(op, a, b, *scales(op, m, 4096, 4096)).as_dict()


@pytest.mark.parametrize("m", [1, 4, 16, 64, 512])
def test_it_is_what_is_chosen_where_it_is_faster(m: int) -> None:
    assert explained(CHANNEL, "i8", m)["implementation"] == ("cpu_vnni" if m <= 4 else AMX)
    for op in (CHANNEL, BLOCK):
        assert explained(op, "f8", m)["implementation"] == AMX


def test_deterministic_calls_get_i8_alone() -> None:
    with dlblas.deterministic():
        assert explained(CHANNEL, "i8", 64)["implementation"] == AMX
        for op, kind in ((CHANNEL, "f8"), (BLOCK, "f8"), (BLOCK, "i8")):
            found = explained(op, kind, 64)
            assert found["implementation"] != AMX
            assert "adds up in another order" in str(found)


@pytest.mark.parametrize("dtype", [F8, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("layout", ["along K", "along N"])
def test_groups_of_f8(layout: str, dtype: Any) -> None:
    """Empty groups, groups of one row, and groups of some and many rows."""
    m, k, n, groups = 230, 300, 200, 5
    generator = torch.Generator().manual_seed(3)
    a, w = (torch.randn(s, generator=generator).to(dtype) for s in ((m, k), (groups, n, k)))
    if layout == "along N":
        w = w.transpose(1, 2).contiguous().transpose(1, 2)
    of = torch.rand(m, 3, generator=generator), torch.rand(groups, 2, 3, generator=generator)
    offsets = torch.tensor([0, 0, 1, 40, 40, 230], dtype=torch.int32)
    op, got = "grouped_gemm_rows_block", []
    for level in (AMX, "cpu_baseline"):
        with dlblas.pinned(op, level):
            got.append(dlblas.grouped_gemm_rows_block(a, w, offsets, *of, out_dtype="f32"))
    assert float((got[0] - got[1]).abs().max()) <= 2e-6 * float(got[1].abs().max())
    alone = torch.tensor([0, 0, 1, 1, 1, 1], dtype=torch.int32)
    with dlblas.pinned(op, AMX):
        one = dlblas.grouped_gemm_rows_block(a[:1], w, alone, of[0][:1], of[1], out_dtype="f32")
    assert torch.equal(one, got[0][:1])


def test_masked_groups_of_f8() -> None:
    groups, m, k, n = 3, 70, 256, 130
    generator = torch.Generator().manual_seed(4)
    a, w = (torch.randn(s, generator=generator).to(F8) for s in ((groups, m, k), (groups, n, k)))
    of = (
        torch.rand(groups, m, 2, generator=generator),
        torch.rand(groups, 2, 2, generator=generator),
    )
    counts = torch.tensor([0, 70, 33], dtype=torch.int32)
    op = "grouped_gemm_masked_block"
    with dlblas.pinned(op, AMX):
        got = dlblas.grouped_gemm_masked_block(a, w, counts, *of, out_dtype="f32")
    for g in range(groups):
        rows = slice(0, int(counts[g]))
        want = call(BLOCK, a[g, rows], w[g].t(), (of[0][g, rows], of[1][g].t()))
        assert torch.equal(got[g, rows], want)


def test_subnormal_and_special_codes_of_e5m2() -> None:
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e5m2)
    one = torch.ones(1, 1, 1).to(torch.float8_e5m2)
    offsets = torch.tensor([0, 256], dtype=torch.int32)
    ones = torch.ones(256, 1), torch.ones(1, 1, 1)
    with dlblas.pinned("grouped_gemm_rows_block", AMX):
        got = dlblas.grouped_gemm_rows_block(
            every.view(256, 1), one, offsets, *ones, out_dtype="f32"
        )
    assert torch.equal(got[:, 0].nan_to_num(7e9), every.float().nan_to_num(7e9))
