"""norm_linear and norm_gated_linear in one kernel, on a GPU: values, rows whose squares leave f32,
Inf and NaN, the same bits in every run and under capture.

Read next: device/gemm/wgmma_norm.cuh, device/gemm/gemv_norm.cuh, ops/mlp/norm_fused.cpp.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from dlblas import errors  # noqa: E402

OPS = ("norm_linear", "norm_gated_linear")
FUSED = ("cuda_gemv", "cuda_wgmma")
ROWS = (1, 3, 16, 37, 64, 128, 256)
# Columns, depth: tiles cut short, a depth that is no multiple of a stage, columns that only
# cuda_gemv takes, many tiles.
SIZES = ((72, 264), (41, 512), (520, 1096), (2056, 4096))
MOST = {torch.float16: 1e-3, torch.bfloat16: 6e-3}
gpu = pytest.mark.gpu


def made(op: str, rows: int, columns: int, depth: int, dtype: Any, gain: Any = None) -> list[Any]:
    torch.manual_seed(rows + columns + depth)
    shapes = [(columns, depth)] * (1 if op == "norm_linear" else 2)
    x, g = torch.randn(rows, depth, device="cuda"), torch.randn(depth, device="cuda") + 1
    weights = [torch.randn(s, device="cuda") / 8 for s in shapes]
    return [x.to(dtype), g.to(gain or dtype), *(w.to(dtype) for w in weights)]


def wanted(op: str, tensors: list[Any], eps: float) -> Any:
    x, g, *weights = (t.double() for t in tensors)
    normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * g
    y = [F.linear(normed, w) for w in weights]
    return y[0] if op == "norm_linear" else F.silu(y[0]) * y[1]


def run(op: str, tensors: list[Any], eps: float, name: str) -> Any:
    with dlblas.pinned(op, name):
        return getattr(dlblas, op)(*tensors, eps)


def takes(name: str, rows: int, columns: int, dtype: Any) -> bool:
    if name == "cuda_gemv":
        return rows <= 4
    hopper = torch.cuda.get_device_capability() == (9, 0)
    return hopper and rows <= 128 and columns % 8 == 0 and dtype == torch.bfloat16


KINDS = (
    (torch.bfloat16, torch.bfloat16),
    (torch.bfloat16, torch.float32),
    (torch.float16, torch.float16),
)


def near(y: Any, want: Any, most: float, what: Any) -> None:
    off = float((y.double() - want).norm() / want.norm())
    assert off <= most, f"{what}: {off:.1e}"
    worst = float((y.double() - want).abs().max() / want.abs().max())
    assert worst <= 2 * most, f"{what}: {worst:.1e}"


@gpu
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("op", OPS)
def test_values(op: str, rows: int, kind: tuple[Any, Any]) -> None:
    dtype, gain = kind
    for columns, depth in SIZES:
        tensors = made(op, rows, columns, depth, dtype, gain)
        want = wanted(op, tensors, 1e-6)
        for name in FUSED:
            if takes(name, rows, columns, dtype):
                near(run(op, tensors, 1e-6, name), want, MOST[dtype], (name, columns, depth))
            else:
                with pytest.raises(errors.Error):
                    run(op, tensors, 1e-6, name)


def config(rows: int, columns: int, depth: int, stages: int) -> str:
    values = {
        "swapped": 0, "block_m": rows, "block_n": columns, "block_k": depth,
        "warpgroups": rows // 64, "pingpong": 0, "share": "none", "cluster": 1, "stages": stages,
        "weight_once": 1, "group_m": 8, "stream": 0,
    }  # fmt: skip
    return " ".join(f"{name}={value}" for name, value in values.items())


TILES = (
    ("norm_linear", 37, 2056, (64, 16, 256)), ("norm_linear", 37, 2056, (64, 32, 128)),
    ("norm_linear", 64, 6144, (64, 64, 128)), ("norm_linear", 20, 14336, (64, 112, 64)),
    ("norm_linear", 9, 20480, (64, 224, 64)), ("norm_linear", 100, 6144, (128, 48, 128)),
    ("norm_linear", 100, 14336, (128, 112, 64)), ("norm_linear", 128, 20480, (128, 176, 64)),
    ("norm_gated_linear", 37, 2056, (64, 32, 256)), ("norm_gated_linear", 9, 10240, (64, 192, 64)),
    ("norm_gated_linear", 100, 4096, (128, 96, 64)),
)  # fmt: skip


@gpu
@pytest.mark.parametrize(("op", "rows", "columns", "tile"), TILES, ids=str)
def test_every_kind_of_tile(op: str, rows: int, columns: int, tile: tuple[int, int, int]) -> None:
    if not takes("cuda_wgmma", rows, columns, torch.bfloat16):
        pytest.skip("WGMMA is of sm_90")
    tensors = made(op, rows, columns, 1096, torch.bfloat16)
    ran = 0
    for stages in range(8, 1, -1):  # the two deepest rings
        try:
            with dlblas.pinned(op, "cuda_wgmma", config(*tile, stages)):
                y = getattr(dlblas, op)(*tensors, 1e-6)
        except errors.Error:
            continue
        ran += 1
        near(y, wanted(op, tensors, 1e-6), MOST[torch.bfloat16], stages)
    assert ran > 0


def sized(x: Any) -> None:
    """Rows of all sizes: those whose squares leave f32, small ones, zeros."""
    scales = [1e30, 1e-30, 1e18, 1e-18, 1e10, 1e-10, 0.0]
    for row in range(len(x)):
        x[row] *= scales[row % len(scales)]


@gpu
@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-60, 1e30])
@pytest.mark.parametrize("rows", [3, 37, 100])
@pytest.mark.parametrize("op", OPS)
def test_rows_of_any_size(op: str, rows: int, eps: float) -> None:
    """As the norm alone: squares that f32 does not hold are summed in f64."""
    tensors = made(op, rows, 72, 1096, torch.bfloat16)
    sized(tensors[0])
    want = run(op, tensors, eps, "cuda_composed").double()
    for name in FUSED:
        if not takes(name, rows, 72, torch.bfloat16):
            continue
        y = run(op, tensors, eps, name).double()
        assert torch.equal(y.isnan(), want.isnan()), name
        for got, row in zip(y, want, strict=True):
            if not row.isnan().any():
                assert float((got - row).norm()) <= 8e-3 * float(row.norm()), name


@gpu
@pytest.mark.parametrize("rows", [3, 37])
@pytest.mark.parametrize("op", OPS)
def test_what_leaves_the_range_on_the_way(op: str, rows: int) -> None:
    """Products of elements and gains that f32 does not hold, and results that it does."""
    tensors = made(op, rows, 72, 1096, torch.bfloat16)
    tensors[0] *= 1e5
    tensors[1] *= 3e33
    want = run(op, tensors, 1e-6, "cuda_composed").double()
    assert want.isfinite().all() if op == "norm_linear" else True
    for name in FUSED:
        if takes(name, rows, 72, torch.bfloat16):
            y = run(op, tensors, 1e-6, name).double()
            assert torch.equal(y.isfinite(), want.isfinite()), name
            there = want.isfinite()
            assert float((y - want)[there].norm()) <= 8e-3 * float(want[there].norm()), name


@gpu
@pytest.mark.parametrize("rows", [3, 37])
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("op", OPS)
def test_infinity_and_nan(op: str, value: float, rows: int) -> None:
    for place in ("x", "gain", "weight"):
        tensors = made(op, rows, 72, 1096, torch.bfloat16)
        if place == "x":
            tensors[0][1, 5] = value
        if place == "gain":
            tensors[1][7] = value
        if place == "weight":
            tensors[2][9, 11] = value
        want = run(op, tensors, 1e-6, "cuda_composed").double()
        for name in FUSED:
            if takes(name, rows, 72, torch.bfloat16):
                y = run(op, tensors, 1e-6, name).double()
                assert torch.equal(y.isnan(), want.isnan()), (name, place)
                assert torch.equal(y.isposinf(), want.isposinf()), (name, place)
                there = want.isfinite()
                assert float((y - want)[there].norm()) <= 8e-3 * float(want[there].norm() + 1)


@gpu
@pytest.mark.parametrize("rows", [1, 16, 64, 128])
@pytest.mark.parametrize("op", OPS)
def test_the_same_bits_and_capture(op: str, rows: int) -> None:
    tensors = made(op, rows, 2056, 4096, torch.bfloat16)
    other = torch.empty(256, 1 << 18, device="cuda")
    for name in FUSED:
        if not takes(name, rows, 2056, torch.bfloat16):
            continue
        first = run(op, tensors, 1e-6, name)
        for _ in range(20):
            other.zero_()
            assert torch.equal(run(op, tensors, 1e-6, name), first), name
        out = torch.zeros_like(first)
        graph = torch.cuda.CUDAGraph()
        with dlblas.pinned(op, name):
            getattr(dlblas, op)(*tensors, 1e-6)
            with torch.cuda.graph(graph):
                for _ in range(3):  # dependent launches
                    getattr(dlblas, op)(*tensors, 1e-6, out=out)
        graph.replay()
        graph.replay()
        assert torch.equal(out, first), name


@gpu
def test_views() -> None:
    """Rows at a pitch; reversed and overlapping ones, which a tensor map cannot describe."""
    for rows in (3, 37):
        x, gain, weight = made("norm_linear", rows, 72, 264, torch.bfloat16)
        wide = torch.randn(rows, 512, device="cuda").bfloat16()
        for view in (wide[:, :264], wide.flip(0)[:, :264], x[:1].expand(rows, 264)):
            want = wanted("norm_linear", [view, gain, weight], 1e-6)
            for name in FUSED:
                with contextlib.suppress(errors.UnsupportedError):
                    y = run("norm_linear", [view, gain, weight], 1e-6, name).double()
                    assert float((y - want).norm() / want.norm()) <= 6e-3, name


def chosen(op: str, rows: int, columns: int, depth: int, dtype: str, device: str) -> Any:
    shapes = [(rows, depth), (depth,)] + [(columns, depth)] * (1 if op == "norm_linear" else 2)
    specs = (dlblas.Spec(shape, dtype, device=device) for shape in shapes)
    return dlblas.explain(op, *specs).as_dict()


def test_one_kernel_is_chosen_where_it_was_faster() -> None:
    """The measurements behind it: docs/notes/gemm.md."""
    for op, sizes, dtype, name in (
        ("norm_linear", (16, 10240, 8192), "bf16", "cuda_wgmma"),
        ("norm_gated_linear", (16, 14336, 4096), "bf16", "cuda_wgmma"),
        ("norm_linear", (1, 6144, 4096), "bf16", "cuda_gemv"),
        ("norm_linear", (1, 4096, 4096), "f16", "cuda_gemv"),
        ("norm_linear", (16, 6144, 4096), "bf16", "cuda_composed"),
        ("norm_linear", (64, 4096, 4096), "bf16", "cuda_composed"),
        ("norm_linear", (128, 6144, 4096), "bf16", "cuda_composed"),
        ("norm_linear", (4, 4096, 4096), "bf16", "cuda_composed"),
        ("norm_gated_linear", (1, 14336, 4096), "bf16", "cuda_composed"),
        ("norm_gated_linear", (64, 14336, 4096), "bf16", "cuda_composed"),
        ("norm_linear", (256, 4096, 4096), "bf16", "cuda_composed"),
        ("norm_linear", (16, 4096, 4096), "f16", "cuda_composed"),
        ("norm_linear", (1, 4096, 4096), "f32", "cuda_composed"),
    ):
        assert chosen(op, *sizes, dtype, "sm_90a")["implementation"] == name, (op, sizes)


@pytest.mark.parametrize(
    ("sizes", "dtype", "name", "why"),
    [
        ((192, 4096, 4096), "bf16", "cuda_wgmma", "x has more than 128 rows (bucket 192)"),
        ((16, 4096, 4096), "f16", "cuda_wgmma", "x in f16 times rms_w may leave the range of f16"),
        ((16, 4100, 4096), "bf16", "cuda_wgmma", "rows of y are aligned to 8 bytes"),
        ((16, 128256, 4096), "bf16", "cuda_wgmma", "there are more tiles than multiprocessors"),
        ((5, 4096, 4096), "bf16", "cuda_gemv", "x has more than 4 rows (bucket 8)"),
        ((1, 4096, 4100), "bf16", "cuda_gemv", "K = 4100 is not a multiple of 8"),
        ((1, 4096, 4096), "f32", "cuda_gemv", "f32 stays IEEE here"),
    ],
)
def test_why_not(sizes: tuple[int, int, int], dtype: str, name: str, why: str) -> None:
    found = chosen("norm_linear", *sizes, dtype, "sm_90a")
    rows = {row["implementation"]: row for row in found["candidates"]}
    assert rows[name]["reason"].startswith(why)
