"""dlblas.grouped_gemm with rows: the rows of a are read where a list says. Against NumPy in f64,
and bit for bit against a copy in that order: repeated rows, rows that are none, empty groups, any
strides; gradients; what is refused.

Every test but the first ones runs on the CPU and, where there is one, on a GPU. Read next:
ops/gemm/grouped_gemm_gathered/.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
from dlblas.errors import (  # noqa: E402
    ArgumentError,
    ShapeMismatchError,
    UnsupportedDtypeError,
)
from torch_gradients import every_device  # noqa: E402, F401

BARS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.2e-2}
# Rows, rows of a, terms, columns, sizes of groups: small, ragged, larger than any tile, few rows.
SHAPES = {
    "small": (9, 5, 16, 24, (3, 0, 5, 1)),
    "ragged": (37, 11, 27, 19, (0, 20, 0, 13)),
    "tiles": (300, 40, 136, 264, (1, 130, 0, 169)),
    "gathered_in_parts": (700, 64, 4104, 16, (700,)),
    "decode": (8, 2, 256, 64, (1, 1, 2, 0, 4)),
}


def tiles_of(form: str) -> list[str]:
    ops = {row["name"]: row for row in dlblas.info()["operators"]}
    forms = {i["name"]: i for i in ops["grouped_gemm_gathered"]["implementations"]}
    return [str(tile) for tile in forms[form]["knobs"][0]["values"]]


def made(shape: str, dtype: Any, device: str) -> tuple[Any, ...]:
    rows, sources, terms, columns, counts = SHAPES[shape]
    a = torch.randn(sources, terms, device=device).to(dtype)
    b = torch.randn(len(counts), columns, terms, device=device).to(dtype)
    ends = torch.tensor([0, *np.cumsum(counts)], device=device)
    ids = torch.randint(sources, (rows,), device=device, dtype=torch.int32)
    ids[:: max(2, rows // 5)] = -1
    return a, b, ends, ids


def copied(a: Any, ids: Any) -> Any:
    """The rows that ids name, zeros for those that name none."""
    there = (ids >= 0) & (ids < len(a))
    if not len(a):
        return a.new_zeros((len(ids), a.shape[1]))
    return torch.where(there[:, None], a[torch.where(there, ids, 0)], 0)


def in_f64(a: Any, b: Any, ends: Any, ids: Any) -> Any:
    rows, weight = copied(a, ids).double().cpu().numpy(), b.double().cpu().numpy()
    out = np.full((len(ids), b.shape[1]), 7.0)  # what is there before
    for e, matrix in enumerate(weight):
        group = slice(int(ends[e]), int(ends[e + 1]))
        out[group] = rows[group] @ matrix.T
    return out


def off(got: Any, want: Any) -> float:
    got = got.double().cpu().numpy()
    return float(np.linalg.norm(got - want) / max(1e-30, np.linalg.norm(want)))


def called(a: Any, b: Any, ends: Any, ids: Any, **more: Any) -> Any:
    out = torch.full((len(ids), b.shape[1]), 7.0, dtype=a.dtype, device=a.device)
    return dlblas.grouped_gemm(a, b, ends, rows=ids, out=out, **more)


@pytest.mark.parametrize("dtype", BARS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_those_of_the_list(shape: str, dtype: Any, device: str) -> None:
    a, b, ends, ids = made(shape, dtype, device)
    got = called(a, b, ends, ids)
    assert off(got, in_f64(a, b, ends, ids)) <= BARS[dtype]
    nowhere = torch.nonzero(ids < 0)[:, 0]
    within = nowhere[(nowhere >= ends[0]) & (nowhere < ends[-1])]
    assert not got[within].any()  # zeros, where a group has such a row
    assert (got[int(ends[-1]) :] == 7).all()  # rows in no group are not written
    assert torch.equal(got, called(a, b, ends.int(), ids.long()))


@pytest.mark.parametrize("dtype", BARS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_bits_are_those_of_a_copy(shape: str, dtype: Any, device: str) -> None:
    a, b, ends, ids = made(shape, dtype, device)
    out = torch.full((len(ids), b.shape[1]), 7.0, dtype=dtype, device=device)
    with dlblas.deterministic():
        want = dlblas.grouped_gemm(copied(a, ids), b, ends, out=out)
        assert torch.equal(called(a, b, ends, ids), want)


def test_the_first_product_of_experts(device: str) -> None:
    """What moe_permute and grouped_gemm compute, without its copy; some choices name no expert."""
    x, w = torch.randn(50, 64, device=device), torch.randn(6, 32, 64, device=device)
    ids = torch.stack([torch.randperm(6)[:3] for _ in range(50)]).to(device, torch.int32)
    ids[::7, 1] = -1
    permuted, offsets, inverse = dlblas.moe_permute(x, ids, 6)
    experts, order = torch.sort(ids.flatten(), stable=True)
    starts = torch.searchsorted(experts, torch.arange(7, device=device, dtype=torch.int32))
    with dlblas.deterministic():
        want = dlblas.grouped_gemm(permuted, w, offsets)
        got = dlblas.grouped_gemm(x, w, starts, rows=order // 3)
    assert torch.equal(got[starts[0] :], want[: offsets[-1]])
    assert torch.equal(
        inverse.flatten()[order[starts[0] :]], offsets.new_tensor(range(offsets[-1]))
    )


@pytest.mark.parametrize("dtype", BARS, ids=str)
def test_any_strides(dtype: Any, device: str) -> None:
    a, b, ends, ids = made("tiles", dtype, device)
    want = in_f64(a, b, ends, ids)
    wide = torch.randn(80, 200, device=device).to(dtype)
    wide[::2, 8:144] = a
    turned = torch.empty((136, 40), device=device, dtype=dtype).copy_(a.T).T
    shifted = torch.empty((40, 140), device=device, dtype=dtype)[:, 1:137].copy_(a)
    apart = torch.stack([ids, ids + 1], 1)[:, 0]
    weights = b.transpose(1, 2).contiguous().transpose(1, 2)
    for view in (wide[::2, 8:144], turned, shifted):
        assert off(called(view, b, ends, ids), want) <= BARS[dtype]
    assert off(called(a, weights, ends.repeat_interleave(2)[::2], apart), want) <= BARS[dtype]
    one = a[:1].repeat(4, 1)[::4]  # a single row, whose stride leads nowhere
    first = torch.where(ids < 0, -1, 0)
    assert off(called(one, b, ends, first), in_f64(one, b, ends, first)) <= BARS[dtype]


def test_rows_far_apart_in_a_large_array(device: str) -> None:
    """Offsets beyond 32 bits, in bytes: a is a view of few rows of a larger array."""
    pitch = (1 << 31) // 2 + 64
    try:
        wide = torch.empty((2 * pitch + 64,), dtype=torch.bfloat16, device=device)
    except RuntimeError:
        pytest.skip("4 GiB do not fit")
    a = wide.as_strided((3, 64), (pitch, 1))
    a.copy_(torch.randn(3, 64))
    b = torch.randn(2, 16, 64, device=device).bfloat16()
    ends = torch.tensor([0, 3, 6], device=device)
    ids = torch.tensor([2, 0, 1, 2, -1, 2], device=device)
    assert off(called(a, b, ends, ids), in_f64(a, b, ends, ids)) <= BARS[torch.bfloat16]


def test_nothing_to_read_or_to_write(device: str) -> None:
    b, ends = torch.randn(2, 8, 16, device=device), torch.tensor([0, 1, 3], device=device)
    a = torch.randn(4, 16, device=device)
    none = torch.full((3,), -1, device=device)
    assert not called(a[:0], b, ends, none).any()  # T = 0
    assert not called(a, b, ends, none).any()
    empty = called(a, b, torch.zeros_like(ends), none[:0])  # M = 0
    assert empty.shape == (0, 8)
    assert called(a, b[:0], ends[:1], none).eq(7).all()  # no groups
    assert not called(a[:, :0], b[:, :, :0], ends, none + 1).any()  # K = 0
    assert called(a, b[:, :0], ends, none + 1).shape == (3, 0)


def test_zeros_stand_for_a_row_that_is_not_there(device: str) -> None:
    b = torch.tensor([[[1.0, 2.0], [float("inf"), 1.0]]], device=device)
    a = torch.full((1, 2), float("nan"), device=device)
    got = called(a, b, torch.tensor([0, 1], device=device), torch.tensor([-5], device=device))
    assert got[0, 0] == 0
    assert got[0, 1].isnan()  # 0 · inf, as of a row of zeros


def test_bad_arguments() -> None:
    a, b, ends, ids = made("small", torch.float32, "cpu")
    room = torch.full((9, 24), 7.0)
    for wrong in ([0, 5, 1], [1, 2, 2**31 - 1]):
        far = torch.tensor([*wrong, 0, 0, 0, 0, 0, 0], dtype=torch.int32)
        with pytest.raises(ArgumentError, match="rows is out of bounds at element") as refused:
            dlblas.grouped_gemm(a, b, ends, rows=far, out=room)
        assert refused.value.argument == "rows"
    with pytest.raises(ArgumentError, match="offsets is out of bounds"):
        dlblas.grouped_gemm(a, b, torch.tensor([0, 3, 3, 8, 10]), rows=ids, out=room)
    for wrong in (ids.float(), ids.to(torch.int16)):
        with pytest.raises(UnsupportedDtypeError, match="rows"):
            dlblas.grouped_gemm(a, b, ends, rows=wrong, out=room)
    with pytest.raises(ShapeMismatchError, match="rows"):
        dlblas.grouped_gemm(a, b, ends, rows=ids[None], out=room)
    with pytest.raises(ShapeMismatchError, match="out"):
        dlblas.grouped_gemm(a, b, ends, rows=ids[1:], out=room)
    with pytest.raises(ShapeMismatchError, match="b"):
        dlblas.grouped_gemm(a[:, 1:], b, ends, rows=ids, out=room)
    assert (room == 7).all()
    scales = {"a_scale": torch.ones(5, 1), "b_scale": torch.ones(4, 1, 1)}
    for beside in ({"a_scale": scales["a_scale"]}, scales):
        with pytest.raises(ArgumentError, match=r"rows is not offered here.*got a_scale"):
            dlblas.grouped_gemm(a, b, ends, rows=ids, **beside)
    with pytest.raises(ArgumentError, match=r"rows is not offered here.*got masked_m"):
        dlblas.grouped_gemm(a[None], b, masked_m=ends[1:], rows=ids)
    with pytest.raises(ArgumentError, match=r"rows is not offered here.*got b"):
        dlblas.grouped_gemm(a, a, ends, rows=ids)
    with pytest.raises(ArgumentError, match="offsets is ambiguous"):
        dlblas.grouped_gemm(a, b, rows=ids)


def test_numpy_arrays() -> None:
    a, b, ends, ids = made("ragged", torch.float32, "cpu")
    got = dlblas.grouped_gemm(a.numpy(), b.numpy(), ends.numpy(), rows=ids.numpy())
    last = int(ends[-1])
    assert isinstance(got, np.ndarray)
    assert off(torch.from_numpy(got)[:last], in_f64(a, b, ends, ids)[:last]) <= 2e-6


def test_the_operator_of_torch(device: str) -> None:
    a, b, ends, ids = made("small", torch.float32, device)
    ends[-1] = len(ids)
    op = torch.ops.dlblas.grouped_gemm_gathered.default
    assert torch.library.opcheck(op, (a, b, ends, ids))
    leaves = a.requires_grad_(), b.requires_grad_(), ends, ids
    assert torch.library.opcheck(op, leaves)
    torch._dynamo.reset()
    fake = torch.compile(dlblas.grouped_gemm, backend="aot_eager", fullgraph=True)
    assert torch.equal(fake(a, b, ends, rows=ids), op(a, b, ends, ids))


@pytest.mark.parametrize("dtype", BARS, ids=str)
@pytest.mark.parametrize("shape", ["small", "ragged", "tiles"])
def test_gradients(shape: str, dtype: Any, device: str) -> None:
    a, b, ends, ids = made(shape, dtype, device)
    last = int(ends[-1])
    wide = [t.double().requires_grad_() for t in (a, b)]
    rows = copied(wide[0], ids)
    parts = [rows[i:k] @ m.T for m, i, k in zip(wide[1], ends, ends[1:], strict=False)]
    arrives = torch.randn(last, b.shape[1], device=device).to(dtype)
    wanted = torch.autograd.grad(torch.cat(parts), wide, arrives.double())
    leaves = a.requires_grad_(), b.requires_grad_()
    torch._dynamo.reset()  # other tests compile this function for their own shapes
    compiled = torch.compile(dlblas.grouped_gemm, backend="aot_eager", fullgraph=True)
    for call in (dlblas.grouped_gemm, compiled):
        y = call(*leaves, ends, rows=ids)
        once, again = (
            torch.autograd.grad(y[:last], leaves, arrives, retain_graph=True) for _ in range(2)
        )
        for got, twice, want in zip(once, again, wanted, strict=True):
            assert got.dtype is dtype and torch.equal(got, twice)
            assert off(got, want.cpu().numpy()) <= BARS[dtype]


def test_gradients_of_nothing(device: str) -> None:
    a = torch.randn(0, 16, device=device, requires_grad=True)
    b = torch.randn(2, 8, 16, device=device, requires_grad=True)
    ends, none = torch.tensor([0, 1, 3], device=device), torch.full((3,), -1, device=device)
    da, db = torch.autograd.grad(dlblas.grouped_gemm(a, b, ends, rows=none).sum(), (a, b))
    assert da.shape == (0, 16) and not db.any()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", BARS, ids=str)
@pytest.mark.parametrize("form", ["cuda_wgmma", "cuda_mma", "cuda_fma"])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_form_is_a_copy_and_a_product(shape: str, form: str, dtype: Any) -> None:
    if form != "cuda_fma" and (dtype is torch.float32 or SHAPES[shape][2] % 8):
        pytest.skip(f"{form} takes f16 and bf16 in rows of whole 16 bytes")
    a, b, ends, ids = made(shape, dtype, "cuda")
    ids[1] = len(a)  # beyond: a GPU reads nothing there
    ids[2] = 2**31 - 1
    ids[3] = -(2**31)
    out = torch.full((len(ids), b.shape[1]), 7.0, dtype=dtype, device="cuda")
    with dlblas.pinned("grouped_gemm_rows", form):
        want = dlblas.grouped_gemm(copied(a, ids), b, ends, out=out)
    with dlblas.pinned("grouped_gemm_gathered", form):
        got = called(a, b, ends, ids)
    assert torch.equal(got, want)
    assert off(got, in_f64(a, b, ends, ids)) <= BARS[dtype]


@pytest.mark.gpu
@pytest.mark.parametrize("turned", [False, True], ids=["along_k", "along_n"])
@pytest.mark.parametrize("tile", tiles_of("cuda_wgmma"))
def test_each_tile_of_wgmma_is_a_copy_and_a_product(tile: str, turned: bool) -> None:
    """Many tiles per block, so that the ring wraps; a group that ends inside a tile; K that ends
    inside a stage and inside 16 bytes, beside which the array has NaN."""
    sources, terms, columns, counts = 900, 1092, 808, (0, 1301, 130, 700, 2, 2867)
    wide = torch.full((sources, 1104), float("nan"), device="cuda", dtype=torch.bfloat16)
    a = wide[:, :terms].copy_(torch.randn(sources, terms, device="cuda"))
    b = torch.full((len(counts), columns, 1104), float("nan"), device="cuda", dtype=a.dtype)
    b = b[:, :, :terms].copy_(torch.randn(len(counts), columns, terms, device="cuda"))
    if turned:
        b = b.transpose(1, 2).contiguous().transpose(1, 2)
    ends = torch.tensor([0, *np.cumsum(counts)], device="cuda")
    ids = torch.randint(-9, sources + 9, (5003,), device="cuda")
    rows = torch.empty((len(ids), 1104), device="cuda", dtype=a.dtype)[:, :terms]
    rows.copy_(copied(a, ids))
    want = torch.full((len(ids), columns), 7.0, dtype=a.dtype, device="cuda")
    with dlblas.pinned("grouped_gemm_rows", "cuda_mma"):
        dlblas.grouped_gemm(rows, b, ends, out=want)
    with dlblas.pinned("grouped_gemm_gathered", "cuda_wgmma", f"tile={tile}"):
        for _ in range(3):
            assert torch.equal(called(a, b, ends, ids), want)


@pytest.mark.gpu
def test_a_graph_follows_the_list() -> None:
    a, b, ends, ids = made("tiles", torch.bfloat16, "cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        dlblas.grouped_gemm(a, b, ends, rows=ids)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = dlblas.grouped_gemm(a, b, ends, rows=ids)
    ids.copy_(ids.flip(0))
    graph.replay()
    assert torch.equal(y, dlblas.grouped_gemm(a, b, ends, rows=ids))
