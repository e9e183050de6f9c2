"""The WGMMA form of batched products: offered for problems that it can take and refused in words
otherwise; on a GPU the right numbers with every tile, in every layout, with nothing written outside
the result.

Read next: ops/gemm/batched/batched_wgmma_cuda.cpp.
"""

from __future__ import annotations

from typing import Any

import dlblas
import pytest

TILES = ("128x256", "256x128", "128x192", "128x160", "128x128", "128x64", "64x256", "64x128",
         "64x64")  # fmt: skip


def _reason(a: dlblas.Spec, b: dlblas.Spec, op: str = "batched_matmul", **more: Any) -> str | None:
    """Why a Hopper GPU cannot use the form; None: it can."""
    told = dlblas.explain(op, a, b, device="sm_90a", **more)
    told = dlblas.explain(op, a, b, device="sm_90a", **more).as_dict()["candidates"]
    (row,) = (c for c in told if c["implementation"] == "cuda_wgmma")
    return None if row["supports"] else row["reason"]


def _spec(*shape: int, dtype: str = "bf16", strides: tuple[int, ...] | None = None) -> dlblas.Spec:
    return dlblas.Spec(shape, dtype, strides=strides, device="cuda:0")


def test_what_it_takes() -> None:
    a, b = _spec(8, 100, 256), _spec(8, 256, 64)
    assert _reason(a, b) is None
    assert _reason(a, _spec(8, 64, 256), "batched_matmul_nt") is None
    # Heads of [S, H, D], one after the other in memory.
    assert _reason(_spec(8, 100, 64, strides=(64, 512, 1)), _spec(8, 64, 64)) is None
    assert _reason(_spec(8, 96, 256, strides=(96 * 256, 1, 96)), b) is None  # aᵀ, of a gradient


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (_spec(8, 0, 64), _spec(8, 64, 64), "a dimension is zero"),
        (_spec(8, 64, 64, dtype="f32"), _spec(8, 64, 64, dtype="f32"), "IEEE"),
        (_spec(8, 64, 64, strides=(0, 64, 1)), _spec(8, 64, 64), "a repeats a matrix or a row"),
        (_spec(8, 64, 64), _spec(8, 64, 100), "16"),
        (_spec(8, 64, 100), _spec(8, 100, 64), "16"),
        (_spec(2, 64, 32768), _spec(2, 32768, 64), "K is 32768: sums are one chain here"),
    ],
)
def test_what_it_refuses(a: dlblas.Spec, b: dlblas.Spec, words: str) -> None:
    assert words in (_reason(a, b) or "")


torch = pytest.importorskip("torch")


def _views(kind: str, count: int, m: int, n: int, k: int, dtype: Any) -> tuple[Any, Any]:
    """a [count, m, k] and b [count, k, n]."""
    torch.manual_seed(m + n + k)

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda").to(dtype)

    if kind == "plain":
        return random(count, m, k), random(count, k, n)
    if kind == "nt":
        return random(count, m, k), random(count, n, k).transpose(1, 2)
    if kind == "turned":
        return random(count, k, m).transpose(1, 2), random(count, k, n)
    if kind == "heads":
        return random(m, count, k).transpose(0, 1), random(k, count, n).transpose(0, 1)
    assert kind == "gaps"
    return random(count + 2, m + 3, k + 8)[1:-1, 2:-1, 8:], random(count, k, n + 16)[..., 8:-8]


SIZES = [(3, 128, 256, 128), (5, 1, 64, 8), (2, 200, 520, 72), (17, 65, 40, 512),
         (300, 16, 128, 64), (2, 1000, 136, 4096)]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["plain", "nt", "turned", "heads", "gaps"])
@pytest.mark.parametrize("tile", TILES)
def test_right_with_every_tile(tile: str, kind: str) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("WGMMA is of sm_90")
    ran = 0
    for count, m, n, k in SIZES:
        m_here = m + -m % 8 if kind == "turned" else m  # rows of aᵀ are aligned to 16 bytes
        for dtype in (torch.bfloat16, torch.float16):
            a, b = _views(kind, count, m_here, n, k, dtype)
            bias = torch.randn(n, device="cuda")
            room = torch.full((count, m_here + 2, n + 16), 7.0, device="cuda", dtype=dtype)
            out = room[:, 1:-1, 8:-8]
            with dlblas.pinned("batched_matmul", "cuda_wgmma", f"tile={tile}"), \
                 dlblas.pinned("batched_matmul_nt", "cuda_wgmma", f"tile={tile}"):  # fmt: skip
                try:
                    dlblas.bmm(a, b, out=out)
                except dlblas.errors.UnsupportedError as refusal:
                    assert "tile_distinct" in str(refusal)  # a smaller tile covers as much
                    continue
                wide = dlblas.bmm(a, b, "relu", bias=bias, out_dtype="f32")
            ran += 1
            exact = a.double() @ b.double()
            bound = (a.double().abs() @ b.double().abs()) * k * 2**-24 + 1e-30
            step = 2**-8 if dtype == torch.bfloat16 else 2**-11
            where = f"{tile} {kind} {(count, m_here, n, k)} {dtype}"
            assert bool(((out.double() - exact).abs() <= bound + step * exact.abs()).all()), where
            activated = (exact + bias.double()).clamp(min=0)
            near = (wide.double() - activated).abs() <= bound * 2 + 2**-22 * (1 + activated)
            assert bool(near.all()), where
            room[:, 1:-1, 8:-8] = 7.0
            assert bool((room == 7.0).all()), f"wrote outside: {where}"
    assert ran >= 4


@pytest.mark.gpu
def test_stale_values_beyond_a_matrix_do_not_leak() -> None:
    """Rows that fill a tile are the next matrix's in memory: they are not read."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("WGMMA is of sm_90")
    a = torch.randn(4, 100, 64, device="cuda").bfloat16()
    b = torch.randn(4, 64, 64, device="cuda").bfloat16()
    a[1], a[3] = float("nan"), float("inf")
    with dlblas.pinned("batched_matmul", "cuda_wgmma"):
        y = dlblas.bmm(a, b)
    assert bool(y[0].isfinite().all() and y[2].isfinite().all())
    assert bool(y[1].isnan().all()) and not bool(y[3].isfinite().any())
