"""bf16 products on units that only some CPUs have (``cpu_amx``, ``cpu_avx512bf16``): every layout
and tail, and the same bits from every configuration.

Read next: cpu/gemm/pairs.hpp, test_matmul_sums.py.
"""

from __future__ import annotations

import itertools
from typing import Any

import dlblas
import numpy as np
import pytest

torch = pytest.importorskip("torch")

CPU = dlblas.info()["devices"][0]
UNITS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(not CPU[flag], reason=f"this CPU has no {flag}"),
    )
    for name, flag in (("cpu_amx", "amx"), ("cpu_avx512bf16", "avx512_bf16"))
]
# Less than a tile, whole tiles, one more; depths of zero, less than one, several and ragged chunks;
# a step, a block and a span of depth, and more.
SHAPES = [
    (1, 1, 1), (1, 64, 64), (3, 0, 5), (5, 33, 7), (16, 32, 64), (17, 31, 65), (33, 100, 100),
    (40, 9000, 40), (64, 4096, 300), (130, 1000, 257), (500, 700, 70), (1100, 20, 33),
]  # fmt: skip
LAYOUTS = ("rows", "columns", "gaps")


def values(rng: Any, *shape: int) -> Any:
    return torch.from_numpy(rng.standard_normal(shape, np.float32)).bfloat16()


def lying(t: Any, layout: str) -> Any:
    if layout == "columns":
        return t.t().contiguous().t()
    if layout == "gaps":
        wide = torch.zeros(2 * t.shape[0], 3 * t.shape[1], dtype=t.dtype)
        wide[::2, ::3] = t
        return wide[::2, ::3]
    return t.contiguous()


def configs(unit: str) -> list[str | None]:
    """The default, and some that differ from it in every knob of the unit."""
    tiles = ("32x32", "16x64") if unit == "cpu_amx" else ("6x64", "12x32", "14x32")
    block = "block_m=96 block_n=128 block_k=512"
    rest = [f"{block} order={o} split=columns pack_a={p}" for o, p in (("rows", 1), ("columns", 0))]
    return [None, *(f"tile={t} {r}" for t in tiles for r in rest)]


def bound(a: Any, b: Any, exact: Any, out: str) -> Any:
    """Error bound: sums of products in f32, then one rounding."""
    sums = 2**-21 * (a.double().abs() @ b.double().abs())
    return sums + (2**-23 if out == "f32" else 2**-8) * exact.abs() + 2**-30


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_in_every_layout(unit: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m + k)
    a, b = values(rng, m, k), values(rng, k, n)
    exact = a.double() @ b.double()
    bias = values(rng, n)
    for left, right, out in itertools.product(LAYOUTS, LAYOUTS, ("f32", "bf16")):
        with dlblas.pinned("matmul", unit):
            got = dlblas.matmul(lying(a, left), lying(b, right), bias=bias, out_dtype=out)
        want = exact + bias.double()
        assert bool(((got.double() - want).abs() <= bound(a, b, want, out)).all()), (
            left,
            right,
            out,
        )


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("shape", [(70, 1100, 300), (33, 8192 + 96, 65)], ids=str)
def test_no_configuration_changes_a_bit(unit: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(k)
    a, b = values(rng, m, k), values(rng, k, n)
    results = []
    for config in configs(unit):
        with dlblas.pinned("matmul", unit, config):
            results.append(dlblas.matmul(a, b, out_dtype="f32"))
    assert all(torch.equal(r, results[0]) for r in results)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("shape", [(1, 40, 7), (40, 100, 70), (130, 1300, 200)], ids=str)
def test_gates(unit: str, shape: tuple[int, int, int]) -> None:
    t, k, f = shape
    rng = np.random.default_rng(f)
    x, gate, up = values(rng, t, k), values(rng, f, k) / 8, values(rng, f, k) / 8
    with dlblas.pinned("gated_linear", unit):
        got = dlblas.gated_linear(x, gate, up)
    want = torch.nn.functional.silu(x.double() @ gate.double().t()) * (x.double() @ up.double().t())
    assert bool(((got.double() - want).abs() <= 2**-7 * want.abs() + 1e-4 * k**0.5).all())


@pytest.mark.parametrize("unit", UNITS)
def test_groups(unit: str) -> None:
    rng = np.random.default_rng(3)
    a, b = values(rng, 150, 96), values(rng, 4, 80, 96)
    offsets = torch.tensor([0, 3, 3, 100, 150], dtype=torch.int32)
    with dlblas.pinned("grouped_gemm_rows", unit):
        got = dlblas.grouped_gemm_rows(a, b, offsets)
    for g in range(4):
        rows = slice(int(offsets[g]), int(offsets[g + 1]))
        want = a[rows].double() @ b[g].double().t()
        assert bool(
            ((got[rows].double() - want).abs() <= bound(a[rows], b[g].t(), want, "bf16")).all()
        )


@pytest.mark.skipif(not CPU["avx512_bf16"], reason="this CPU has no unit for bf16")
@pytest.mark.parametrize("columns", [16, 200], ids=["few", "many"])
@pytest.mark.parametrize("right", LAYOUTS)
def test_a_row_has_the_same_bits_in_any_batch(right: str, columns: int) -> None:
    """One unit serves any number of rows: never the kernels of a level or another unit."""
    rng = np.random.default_rng(columns)
    a, b = values(rng, 150, 9000), lying(values(rng, 9000, columns), right)
    with dlblas.deterministic():
        whole = dlblas.matmul(a, b, out_dtype="f32")
        for rows in (1, 2, 7, 16, 33, 64, 100):
            assert torch.equal(dlblas.matmul(a[:rows], b, out_dtype="f32"), whole[:rows]), rows
            found = dlblas.explain("matmul", a[:rows], b, out_dtype="f32").as_dict()
            assert found["implementation"] in (
                ("cpu_amx", "cpu_row_amx") if CPU["amx"] else ("cpu_avx512bf16",)
            )


@pytest.mark.parametrize("unit", UNITS)
def test_other_dtypes_are_refused(unit: str) -> None:
    a = torch.ones(64, 64)
    with (
        dlblas.pinned("matmul", unit),
        pytest.raises(dlblas.errors.UnsupportedError, match="bf16 alone"),
    ):
        dlblas.matmul(a, a)


needs_amx = pytest.mark.skipif(not CPU["amx"], reason="this CPU has no amx")
# One to four tiles of rows; whole and ragged tiles of columns, fewer than a thread takes; ragged
# depths and several spans.
FEW = [
    (1, 3, 16), (1, 40, 17), (2, 64, 33), (7, 4096, 100), (16, 100, 96), (17, 33, 130),
    (33, 257, 47), (48, 8192 + 40, 31), (64, 20000, 65),
]  # fmt: skip


@needs_amx
@pytest.mark.parametrize("shape", FEW, ids=str)
def test_few_rows_by_tiles_have_the_bits_of_blocks(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m * n)
    a, b, bias = values(rng, m, k), lying(values(rng, k, n), "columns"), values(rng, n)
    exact = a.double() @ b.double() + bias.double()
    most = 1 if m > 32 else 3  # m counts as the bucket that it is in
    for left, out in itertools.product(LAYOUTS, ("f32", "bf16")):
        with dlblas.pinned("matmul", "cpu_amx"):
            blocks = dlblas.matmul(lying(a, left), b, bias=bias, out_dtype=out)
        assert bool(((blocks.double() - exact).abs() <= bound(a, b, exact, out)).all())
        for columns in range(1, most + 1):
            config = f"tiles={columns} block_n=16 prefetch={512 * (columns % 2)}"
            with dlblas.pinned("matmul", "cpu_row_amx", config):
                rows = dlblas.matmul(lying(a, left), b, bias=bias, out_dtype=out)
            assert torch.equal(rows, blocks), (left, out, columns)


@pytest.mark.parametrize("unit", UNITS[1:])
@pytest.mark.parametrize("shape", [
    (1, 31, 2), (1, 5000, 3), (1, 4096, 100), (2, 33, 17), (3, 8192, 48), (4, 1025, 50),
    (7, 9001, 20), (8, 100, 96), (9, 1024, 49), (17, 2500, 145), (31, 70, 33), (32, 20000, 7),
], ids=str)  # fmt: skip
def test_few_rows_by_pairs(shape: tuple[int, int, int], unit: str) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m * n + k)
    a, b, bias = values(rng, m, k), lying(values(rng, k, n), "columns"), values(rng, n)
    exact = a.double() @ b.double() + bias.double()
    for left, out in itertools.product(LAYOUTS, ("f32", "bf16")):
        results = []
        for config in ("block_n=48 prefetch=0", "block_n=48 prefetch=1"):
            with dlblas.pinned("matmul", "cpu_row_avx512bf16", config):
                results.append(dlblas.matmul(lying(a, left), b, bias=bias, out_dtype=out))
        assert bool(((results[0].double() - exact).abs() <= bound(a, b, exact, out)).all())
        assert all(torch.equal(r, results[0]) for r in results)


@pytest.mark.parametrize("unit", UNITS[1:])
@pytest.mark.parametrize("rows", [1, 6, 21])
def test_gates_of_few_rows_by_pairs(rows: int, unit: str) -> None:
    rng = np.random.default_rng(rows)
    x, gate, up = values(rng, rows, 70), values(rng, 99, 70) / 8, values(rng, 99, 70) / 8
    results = []
    for name in ("cpu_row_avx512bf16", unit):
        with dlblas.pinned("gated_linear", name):
            results.append(dlblas.gated_linear(x, gate, up).double())
    assert bool(((results[0] - results[1]).abs() <= 2**-7 * results[1].abs() + 1e-4).all())


@needs_amx
def test_gates_of_few_rows_by_tiles() -> None:
    rng = np.random.default_rng(8)
    x, gate, up = values(rng, 21, 70), values(rng, 99, 70) / 8, values(rng, 99, 70) / 8
    results = []
    for name in ("cpu_amx", "cpu_row_amx"):
        with dlblas.pinned("gated_linear", name):
            results.append(dlblas.gated_linear(x, gate, up))
    assert torch.equal(*results)


def drawn(kind: str, rng: Any, *shape: int) -> Any:
    if kind == "normal":
        x = rng.standard_normal(shape, np.float32)
    elif kind == "constant":
        x = np.full(shape, 0.1, np.float32)
    else:
        x = rng.random(shape, np.float32)
    return torch.from_numpy(x).bfloat16()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("depth", [64, 1000, 4096, 8192, 65536, 1 << 19])
@pytest.mark.parametrize("kind", ["normal", "uniform", "constant"])
def test_sums_are_as_good_as_numpys(kind: str, depth: int, unit: str) -> None:
    """Errors compared with those of NumPy's f32 product, as test_matmul_sums.py does for the
    levels."""
    rng = np.random.default_rng(depth)
    a, b = drawn(kind, rng, 24, depth), drawn(kind, rng, depth, 32)
    exact, ours = a.double() @ b.double(), {}
    numpys = torch.from_numpy(a.float().numpy() @ b.float().numpy())
    with dlblas.pinned("matmul", unit):
        ours["blocks"] = dlblas.matmul(a, b, out_dtype="f32")
    with dlblas.pinned("matmul", f"cpu_row_{unit.removeprefix('cpu_')}"):
        ours["rows"] = dlblas.matmul(a, lying(b, "columns"), out_dtype="f32")
    theirs = float((numpys.double() - exact).abs().mean())
    least = 2**-24 * float(exact.abs().mean())  # a rounding of the result
    for form, got in ours.items():
        error = float((got.double() - exact).abs().mean())
        assert error <= max(2 * theirs, least), (form, error, theirs)
