"""dlblas.grouped_gemm of f8 codes summed over each group's rows, with one scale per 128 rows.

In: groups of any length, codes in both layouts. Compared with NumPy in f64 on the dequantised
codes. Every test runs on the CPU and, where there is one, on a GPU. Read next: ops/gemm/api.py,
ops/gemm/grouped_gemm_k_block/grouped_gemm_k_block_ref.hpp.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
from dlblas import errors  # noqa: E402
from torch_gradients import every_device  # noqa: E402, F401

F8 = torch.float8_e4m3fn
# Bars of the contract, before and after rounding.
BARS = {torch.float32: 5e-4, torch.bfloat16: 2e-3, torch.float16: 2e-3}
GROUPS = {
    "ragged": (0, 1, 40, 129, 300, 517),
    "empty": (0, 0, 70, 70, 70, 517, 517),
    "inside a block": (130, 131, 140, 255),
    "whole blocks": (0, 128, 384, 512),
    "none": (200, 200, 200),
}


def drawn(rows: int, columns: int, dtype: Any, device: str, along: bool) -> tuple[Any, Any]:
    """Codes and scales; ``along``: contiguous along the rows."""
    blocks = -(-rows // 128)
    shape, of_blocks = (
        ((columns, rows), (columns, blocks)) if along else ((rows, columns), (blocks, columns))
    )
    codes = torch.randn(shape, device=device).to(dtype)
    scale = torch.rand(of_blocks, device=device) + 0.5
    return (codes.T, scale.T) if along else (codes, scale)


def wanted(a: Any, b: Any, offsets: Any, a_scale: Any, b_scale: Any) -> Any:
    def wide(codes: Any, scale: Any) -> Any:
        rows = np.repeat(scale.cpu().double().numpy(), 128, axis=0)[: len(codes)]
        return codes.cpu().float().double().numpy() * rows

    left, right = wide(a, a_scale), wide(b, b_scale)
    return np.stack([left[i:k].T @ right[i:k] for i, k in itertools.pairwise(offsets)])


def error(got: Any, want: Any) -> float:
    off = np.linalg.norm(got.cpu().double().numpy() - want)
    return float(off / max(float(np.linalg.norm(want)), 1e-30))


@pytest.mark.parametrize("along", [False, True], ids=["by rows", "along rows"])
@pytest.mark.parametrize("dtype", [F8, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("groups", GROUPS)
def test_as_numpy(groups: str, dtype: Any, along: bool, device: str) -> None:
    offsets, rows = GROUPS[groups], 517
    a, a_scale = drawn(rows, 72, dtype, device, along)
    b, b_scale = drawn(rows, 139, dtype, device, along)
    want = wanted(a, b, offsets, a_scale, b_scale)
    for index, (out_dtype, bar) in itertools.product((torch.int32, torch.int64), BARS.items()):
        ends = torch.tensor(offsets, dtype=index, device=device)
        got = dlblas.grouped_gemm(a, b, ends, a_scale=a_scale, b_scale=b_scale, out_dtype=out_dtype)
        assert got.dtype is out_dtype and got.shape == want.shape
        assert error(got, want) <= bar
        for e, (first, last) in enumerate(itertools.pairwise(offsets)):
            assert first < last or not got[e].any()
    assert dlblas.grouped_gemm(
        a, b, ends, a_scale=a_scale, b_scale=b_scale
    ).dtype is torch.bfloat16  # fmt: skip


def test_other_rows_and_their_scales_have_no_influence(device: str) -> None:
    offsets = torch.tensor([130, 140, 140, 200], device=device)
    a, a_scale = drawn(517, 24, F8, device, False)
    b, b_scale = drawn(517, 40, F8, device, True)
    given = {"a_scale": a_scale, "b_scale": b_scale, "out_dtype": torch.float32}
    want = dlblas.grouped_gemm(a, b, offsets, **given)
    for x, scale in ((a, a_scale), (b, b_scale)):
        x.view(torch.uint8)[:130] = 0x7F  # NaN
        x.view(torch.uint8)[200:] = 0x7F
        scale[0], scale[2:] = float("inf"), float("nan")
    got = dlblas.grouped_gemm(a, b, offsets, **given)
    assert torch.equal(got, want) and not got[1].any()


def test_codes_of_padded_groups_fit_as_they_are(device: str) -> None:
    """DeepGEMM quantises each group alone, padded to 128 rows; the parts adjoin."""
    lengths = (128, 0, 384)
    parts = [[drawn(rows, n, F8, device, False) for rows in lengths] for n in (32, 48)]
    (a, a_scale), (b, b_scale) = (
        [torch.cat(each) for each in zip(*of, strict=True)] for of in parts
    )
    ends = torch.tensor([0, *itertools.accumulate(lengths)], device=device)
    out = torch.empty(3, 32, 48, device=device)
    given = {"a_scale": a_scale, "b_scale": b_scale, "out_dtype": torch.float32}
    assert dlblas.grouped_gemm(a, b, ends, **given, out=out) is out
    for e, (left, right) in enumerate(zip(*parts, strict=True)):
        alone = wanted(left[0], right[0], (0, lengths[e]), left[1], right[1])
        assert error(out[e], alone[0]) <= 5e-4


def test_the_gradient_of_a_weight(device: str) -> None:
    dout, x = torch.randn(300, 64, device=device), torch.randn(300, 96, device=device)
    offsets = (0, 100, 100, 300)
    ends = torch.tensor(offsets, device=device)
    (a, a_scale), (b, b_scale) = (dlblas.quantize(t.T.contiguous(), "group128") for t in (dout, x))
    given = {"a_scale": a_scale.T, "b_scale": b_scale.T}

    def call(a: Any, b: Any, ends: Any, given: Any) -> Any:
        return dlblas.grouped_gemm(a, b, ends, **given, out_dtype=torch.float32)

    got = call(a.T, b.T, ends, given)
    assert error(got, dlblas.grouped_gemm(dout, x, ends).cpu().double().numpy()) <= 4.5e-2
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(a.T, b.T, ends, given), got)


def tiles_of(form: str) -> list[str]:
    ops = {row["name"]: row for row in dlblas.info()["operators"]}
    forms = {i["name"]: i for i in ops["grouped_gemm_k_block"]["implementations"]}
    return [str(tile) for tile in forms[form]["knobs"][0]["values"]]


LIES = {  # a and b: along the rows or by them; elements beside those of a row or a column
    "along rows": (True, True, 15),
    "along rows, at an odd pitch": (True, True, 0),
    "by rows": (False, False, 7),
    "each its own way": (True, False, 15),
}


@pytest.mark.gpu
@pytest.mark.parametrize("lies", LIES)
@pytest.mark.parametrize("tile", tiles_of("cuda_wgmma"))
def test_tiles_of_wgmma(tile: str, lies: str) -> None:
    """Many tiles per block, so that the ring wraps; groups that end inside blocks; codes and scales
    of no group are NaN."""
    offsets = (3, 3, 130, 1000, 1024, 1030, 1152, 3000, 3001, 4800)
    rows, n, k = 4993, 333, 1304
    a_along, b_along, beside = LIES[lies]
    ends = torch.tensor(offsets, device="cuda")
    operands = []
    for columns, along in ((n, a_along), (k, b_along)):
        codes, scale = drawn(rows, columns, F8, "cuda", along)
        for out in (slice(0, offsets[0]), slice(offsets[-1], rows)):
            codes.view(torch.uint8)[out] = 0x7F
        scale[-(-offsets[-1] // 128) :] = float("nan")
        wide = torch.empty((columns, rows + beside) if along else (rows, columns + beside))
        wide = wide.to("cuda", torch.uint8).fill_(0x7F).view(F8)
        view = wide[:, :rows].T if along else wide[:, :columns]
        view.view(torch.uint8).copy_(codes.view(torch.uint8))
        operands.append((view, scale))
    (a, a_scale), (b, b_scale) = operands
    want = wanted(a, b, offsets, a_scale, b_scale)
    for out_dtype, bar in BARS.items():
        given = {"a_scale": a_scale, "b_scale": b_scale, "out_dtype": out_dtype}
        with dlblas.pinned("grouped_gemm_k_block", "cuda_wgmma", f"tile={tile}"):
            got = dlblas.grouped_gemm(a, b, ends, **given)
            assert error(got, want) <= bar and not got[0].any()
            for _ in range(3):
                assert torch.equal(dlblas.grouped_gemm(a, b, ends, **given), got)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"a_scale": (4, 24)}, r"a_scale has size 4 .*M/128.* from a \[M=517, N=24\]"),
        ({"a_scale": (5, 1)}, r"a_scale has size 1 .* from a \[M=517, N=24\]"),
        ({"b_scale": (5, 39)}, r"b_scale has size 39 .* from b \[M=517, K=40\]"),
        ({"b_scale": (5,)}, r"b_scale has 1 dimension"),
        ({"b": (516, 40)}, r"b has size 516 .* from a \[M=517, N=24\]"),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit(bad: dict[str, Any], words: str) -> None:
    shapes = {"a": (517, 24), "b": (517, 40), "a_scale": (5, 24), "b_scale": (5, 40), **bad}
    given = {name: torch.ones(shape) for name, shape in shapes.items()}
    a, b = given.pop("a").to(F8), given.pop("b").to(F8)
    with pytest.raises(errors.ShapeMismatchError, match=f"^grouped_gemm: {words}") as caught:
        dlblas.grouped_gemm(a, b, torch.tensor([0, 517]), **given)
    assert caught.value.argument == next(iter(bad)) and caught.value.expected


def test_what_is_no_code_or_scale() -> None:
    a, b, one = torch.ones(5, 4), torch.ones(5, 3), torch.tensor([0, 5])
    scales = {"a_scale": torch.ones(1, 4), "b_scale": torch.ones(1, 3)}
    with pytest.raises(errors.UnsupportedDtypeError, match=r"^grouped_gemm: a has dtype f32"):
        dlblas.grouped_gemm(a, b, one, **scales)
    with pytest.raises(errors.UnsupportedDtypeError, match=r"^grouped_gemm: b has dtype f8e5m2"):
        dlblas.grouped_gemm(a.to(F8), b.to(torch.float8_e5m2), one, **scales)
    scales["b_scale"] = scales["b_scale"].half()
    with pytest.raises(errors.UnsupportedDtypeError, match=r"^grouped_gemm: b_scale has dtype f16"):
        dlblas.grouped_gemm(a.to(F8), b.to(F8), one, **scales)
    del scales["b_scale"]
    with pytest.raises(errors.ArgumentError, match="b_scale is missing"):
        dlblas.grouped_gemm(a.to(F8), b.to(F8), one, **scales)
