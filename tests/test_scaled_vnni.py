"""The integer products of scaled_mm_channel (``cpu_vnni``, ``cpu_i16_avx2``): exact at the largest
codes and beyond the depth where i32 overflows, in every layout and configuration, with the other
levels' bits.

Read next: ops/gemm/scaled/scaled_avx512vnni.cpp, scaled_i16_avx2.cpp, test_scaled_mm.py.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.harness import abi
from levels import LEVELS

OP, VNNI, I16 = "scaled_mm_channel", "cpu_vnni", "cpu_i16_avx2"
CPU = dlblas.info()["devices"][0]
needs_vnni = pytest.mark.skipif(not CPU["vnni"], reason="no AVX512_VNNI here")
needs_avx2 = pytest.mark.skipif(CPU["isa"] == "baseline", reason="no AVX2 here")
UNITS = [pytest.param(VNNI, marks=needs_vnni), pytest.param(I16, marks=needs_avx2)]
# Few rows, more than a tile's, whole tiles, more than are packed at a time; ragged vectors, whole
# ones, and both together.
SHAPES = [
    (1, 1, 1), (1, 64, 64), (1, 4096, 130), (2, 63, 65), (3, 4, 5), (5, 129, 64), (6, 1000, 33),
    (7, 65, 257), (8, 128, 100), (12, 61, 67), (13, 515, 31), (16, 1029, 300), (25, 66, 192),
    (37, 700, 70), (144, 130, 129), (505, 70, 66), (577, 9, 65), (1300, 9, 65),
]  # fmt: skip


def codes(rng: Any, *shape: int) -> Any:
    return rng.integers(-128, 128, shape, dtype=np.int8)


def lying(array: Any, layout: str) -> Any:
    """The same values: row-major, column-major, with gaps, backwards."""
    if layout == "columns":
        return np.asfortranarray(array)
    if layout == "gaps":
        wide = np.zeros((2 * array.shape[0], 3 * array.shape[1]), array.dtype)
        wide[::2, ::3] = array
        return wide[::2, ::3]
    if layout == "backwards":
        return np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
    return np.ascontiguousarray(array)


LAYOUTS = ("rows", "columns", "gaps", "backwards")


def sums_of(unit: str, a: Any, b: Any, config: str | None = None) -> Any:
    ones = np.ones((a.shape[0], 1), np.float32), np.ones(b.shape[1], np.float32)
    with dlblas.pinned(OP, unit, config):
        return dlblas.scaled_mm_channel(a, b, *ones, out_dtype="f32")


def exact(a: Any, b: Any) -> Any:
    """Exact f64 products of parts of K, accumulated in i64; then one rounding."""
    total = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for k in range(0, a.shape[1], 1 << 16):
        part = a[:, k : k + (1 << 16)].astype(np.float64) @ b[k : k + (1 << 16)].astype(np.float64)
        total += part.astype(np.int64)
    return total.astype(np.float32)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_are_exact_in_every_layout(unit: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m)
    a, b = codes(rng, m, k), codes(rng, k, n)
    expected = exact(a, b)
    for left, right in itertools.product(LAYOUTS, LAYOUTS):
        got = sums_of(unit, lying(a, left), lying(b, right))
        np.testing.assert_array_equal(got, expected, err_msg=f"{left} × {right}")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("k", [65535, 65536, 65537, 131071, 131072, 131073, 262147])
def test_no_sum_overflows(unit: str, k: int, layout: str) -> None:
    """i32 holds 131071 products of the largest codes; with one more, +2^31 would wrap to −2^31."""
    rng = np.random.default_rng(k)
    low, high = (np.full((3, k), v, np.int8) for v in (-128, 127))
    a = np.concatenate([low, high, codes(rng, 3, k)])
    b = np.concatenate([low, high, codes(rng, 4, k)]).T
    for rows in (1, len(a)):
        got = sums_of(unit, a[:rows], lying(b, layout))
        np.testing.assert_array_equal(got, exact(a[:rows], b))
    assert got[0, 0] == np.float32(k * 128 * 128)


def configurations() -> Iterator[Any]:
    """Those of each unit; the last one packs nothing."""
    spaces = {
        VNNI: ((128, 256, 512, 1024), (64, 128, 256, 512, 1024, 2048), 1024, needs_vnni),
        I16: ((256, 512, 1024), (64, 128, 256, 512, 1024), 512, needs_avx2),
    }
    for unit, (depths, columns, of_dots, needs) in spaces.items():
        tiles = [f"depth={d} columns={c} dots=0" for d, c in itertools.product(depths, columns)]
        for config in (*tiles, f"depth={of_dots} columns=256 dots=1"):
            yield pytest.param(unit, config, marks=needs)


@pytest.mark.parametrize(("unit", "config"), list(configurations()))
def test_each_configuration(unit: str, config: str) -> None:
    rng = np.random.default_rng(7)
    for m, k, n in ((1, 1100, 300), (9, 1100, 300), (30, 2051, 70)):
        a, b = codes(rng, m, k), codes(rng, k, n)
        expected = exact(a, b)
        for layout in ("columns",) if config.endswith("dots=1") else ("rows", "columns"):
            np.testing.assert_array_equal(sums_of(unit, a, lying(b, layout), config), expected)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_bits_are_those_of_the_other_levels(unit: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for m, k, n in ((1, 300, 70), (14, 515, 129), (33, 2000, 64)):
        a, b = codes(rng, m, k), codes(rng, k, n)
        rows, columns = (rng.random(s, dtype=np.float32) * 1e-3 for s in ((m, 1), (n,)))
        bias = rng.standard_normal(n).astype(np.float32)
        for scales in ((rows, columns), (rows, columns[:1]), (rows, columns[::-1])):
            got = []
            for level in (unit, *LEVELS):
                with dlblas.pinned(OP, level):
                    y = dlblas.scaled_mm_channel(a, b, *scales, bias=bias, out_dtype=dtype)
                    got.append(np.asarray(y).tobytes())
            assert got.count(got[0]) == len(got)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("threads", [1, 2, 3, 7, 16])
def test_any_threads_share_rows_and_columns(unit: str, threads: int) -> None:
    rng = np.random.default_rng(threads)
    for m, n in ((700, 330), (5, 330), (700, 3), (40, 60)):
        a, b = codes(rng, m, 200), codes(rng, 200, n)
        ones = {"a_scale": np.ones((m, 1), "f"), "b_scale": np.ones(n, "f")}
        out = np.empty((m, n), "f")
        with dlblas.pinned(OP, unit):
            abi.call(OP, {"a": a, "b": b, **ones, "out_dtype": "f32"}, [out], threads)
        np.testing.assert_array_equal(out, exact(a, b))


def explained(dtype: str, m: int = 16, **env: str) -> str:
    program = f"""
import dlblas
S = dlblas.Spec
a, b = S(({m}, 4096), "{dtype}"), S((4096, 4096), "{dtype}")
print(dlblas.explain("{OP}", a, b, S(({m}, 1), "f32"), S((4096,), "f32")))
"""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_avx2
@pytest.mark.parametrize("m", [1, 16, 512])
def test_it_is_what_codes_of_i8_get_without_tiles(m: int) -> None:
    winner = "cpu_amx" if CPU["amx"] and m > 16 else VNNI if CPU["vnni"] else I16
    assert f"{winner} has the smallest predicted time" in explained("i8", m)


def test_what_it_refuses_is_said() -> None:
    lacks = "needs AVX512_VNNI, which this CPU lacks or DLBLAS_CPU_ISA rules out"
    assert lacks in explained("i8", DLBLAS_CPU_ISA="avx2")
    said = explained("f8e4m3")
    assert (lacks if not CPU["vnni"] else "a is f8e4m3: the integer unit multiplies i8") in said
