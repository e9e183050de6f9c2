"""Products with 8-bit codes: every code, scales per output and per group, and what is refused.

Shapes, layouts and special values are in ops/w4/mm_w8a16_group/cases.json. Read next:
ops/w4/README.md.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import errors
from levels import LEVELS

RNG = np.random.default_rng(23)
OP = "mm_w8a16_group"


def given(rows: int, columns: int, depth: int, group: int) -> tuple[Any, Any, Any, Any]:
    x = RNG.standard_normal((rows, depth)).astype("e")
    q = RNG.integers(-128, 128, (columns, depth)).astype(np.int8)
    groups = 1 if group == -1 else -(-depth // group)
    scale = (RNG.uniform(0.5, 2, (columns, groups)) / 127).astype("f")
    return x, q, scale, RNG.standard_normal(columns).astype("f")


def wanted(x: Any, q: Any, scale: Any, bias: Any, group: int) -> Any:
    """In f64; a weight of groups is rounded to x's dtype."""
    x, q = x.astype(np.float64), q.astype(np.float64)
    if group == -1 or group >= q.shape[1]:
        y = x @ q.T * scale[:, 0]
    else:
        each = np.repeat(scale, group, 1)[:, : q.shape[1]]
        y = x @ (q * each).astype("f").astype("e").astype(np.float64).T
    return y if bias is None else y + bias


def check(y: Any, expected: Any) -> None:
    """One rounding of f16, and f32 sums."""
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=6e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 7, 16, 33, 64])
@pytest.mark.parametrize(("columns", "depth"), [(1, 1), (67, 131), (131, 160), (96, 256)])
@pytest.mark.parametrize("group", [-1, 28, 64])
def test_shapes_and_scales(rows: int, columns: int, depth: int, group: int) -> None:
    x, q, scale, bias = given(rows, columns, depth, group)
    for added in (None, bias, bias.astype("e")):
        y = dlblas.mm_w8a16(x, q, scale, added, group)
        assert y.dtype == x.dtype
        check(y, wanted(x, q, scale, added, group))


@pytest.mark.parametrize("level", ["avx2", "avx512"])
@pytest.mark.parametrize(("columns", "depth", "group"), [(1, 16, -1), (67, 176, -1), (131, 176, 48),
                                                         (300, 2048, 128)])  # fmt: skip
def test_few_rows_convert_in_registers(level: str, columns: int, depth: int, group: int) -> None:
    if f"cpu_{level}" not in LEVELS:
        pytest.skip(f"no {level} here")
    for rows in (1, 2, 3, 8):
        x, q, scale, bias = given(rows, columns, depth, group)
        with dlblas.pinned(OP, f"cpu_rows_{level}"):
            for added in (None, bias, bias.astype("e")):
                check(dlblas.mm_w8a16(x, q, scale, added, group), wanted(x, q, scale, added, group))
            strided = np.repeat(x, 2, 1)[:, ::2], np.repeat(q, 3, 0)[::3]
            check(dlblas.mm_w8a16(*strided, scale, None, group), wanted(x, q, scale, None, group))


@pytest.mark.parametrize("group", [-1, 64])
def test_every_code(group: int) -> None:
    """An identity for x returns the codes."""
    q = np.arange(-128, 128, dtype=np.int8).reshape(2, 128)
    scale = np.ones((2, 1 if group == -1 else 2), "f")
    y = dlblas.mm_w8a16(np.eye(128, dtype="e"), q, scale, None, group)
    np.testing.assert_array_equal(y, q.T)


def test_scales_in_each_form() -> None:
    x, q, scale, bias = given(5, 40, 96, -1)
    y = dlblas.mm_w8a16(x, q, scale, bias)
    np.testing.assert_array_equal(dlblas.mm_w8a16(x, q, scale[:, 0], bias), y)
    np.testing.assert_array_equal(dlblas.mm_w8a16(x, q, scale, bias, 96), y)
    np.testing.assert_array_equal(dlblas.mm_w8a16(x, q, scale, bias, 1000), y)
    small = scale.astype("e")
    check(dlblas.mm_w8a16(x, q, small, bias), wanted(x, q, small.astype("f"), bias, -1))


@pytest.mark.parametrize("by", ["token", "group128"])
def test_codes_and_scales_of_quantize(by: str) -> None:
    rng = np.random.default_rng(11)  # its own: the last bound is 3 deviations of rounding
    w = rng.standard_normal((24, 256)).astype("f")
    q, scale = dlblas.quantize(w, by, dtype="i8")
    x = rng.standard_normal((3, 256)).astype("e")
    group = -1 if by == "token" else 128
    y = dlblas.mm_w8a16(x, q, scale, None, group)
    check(y, wanted(x, q, scale, None, group))
    assert np.abs(y - x.astype("f") @ w.T).max() < 0.4


def test_strided_inputs_and_leading_dimensions() -> None:
    x, q, scale, bias = given(12, 40, 96, 32)
    y = dlblas.mm_w8a16(x, q, scale, bias, 32)
    wide = np.zeros((12, 192), "e")
    wide[:, ::2] = x
    codes = np.asfortranarray(q)
    np.testing.assert_array_equal(dlblas.mm_w8a16(wide[:, ::2], codes, scale, bias, 32), y)
    batch = dlblas.mm_w8a16(x.reshape(3, 4, 96), q, scale, bias, 32)
    np.testing.assert_array_equal(batch, y.reshape(3, 4, 40))
    swapped = dlblas.mm_w8a16(x.reshape(3, 4, 96).swapaxes(0, 1), q, scale, bias, 32)
    np.testing.assert_array_equal(swapped, y.reshape(3, 4, 40).swapaxes(0, 1))
    out = np.empty((12, 40), "e")
    assert dlblas.mm_w8a16(x, q, scale, bias, 32, out=out) is out
    np.testing.assert_array_equal(out, y)


def test_nothing_to_do() -> None:
    x, q, scale, bias = given(3, 8, 64, -1)
    assert dlblas.mm_w8a16(x[:0], q, scale).shape == (0, 8)
    assert dlblas.mm_w8a16(x[None, :0], q, scale).shape == (1, 0, 8)
    assert dlblas.mm_w8a16(x, q[:0], scale[:0]).shape == (3, 0)
    y = dlblas.mm_w8a16(x[:, :0], q[:, :0], scale, bias)
    np.testing.assert_array_equal(y, np.tile(bias.astype("e"), (3, 1)))


def test_what_is_refused() -> None:
    x, q, scale, bias = given(3, 8, 64, 32)
    out = np.full((3, 8), 7, "e")

    def refused(error: type[Exception], named: str, *args: Any) -> None:
        with pytest.raises(error, match=named):
            dlblas.mm_w8a16(*args, out=out)
        assert (out == 7).all()

    for group in (0, -2):
        refused(errors.ArgumentError, "group", x, q, scale, bias, group)
    refused(errors.ShapeMismatchError, "scale", x, q, scale, bias)
    refused(errors.ShapeMismatchError, "scale", x, q, scale, bias, 64)
    refused(errors.ShapeMismatchError, "qweight", x, q[:, :32], scale, bias, 32)
    refused(errors.ShapeMismatchError, "bias", x, q, scale, bias[:4], 32)
    refused(errors.UnsupportedDtypeError, "x", x.astype("f"), q, scale, bias, 32)
    refused(errors.UnsupportedDtypeError, "qweight", x, q.view(np.uint8), scale, bias, 32)
    refused(errors.UnsupportedDtypeError, "scale", x, q, scale.astype("d"), bias, 32)
    for missing in ("x", "qweight", "scale"):
        args = {"x": x, "qweight": q, "scale": scale, missing: None}
        with pytest.raises(errors.ArgumentTypeError, match=f"mm_w8a16: {missing} is no array"):
            dlblas.mm_w8a16(**args, group=32)


def test_the_op_of_torch() -> None:
    torch = pytest.importorskip("torch")
    import dlblas.torch

    assert dlblas.torch
    for group in (96, 32):
        x, q, scale, bias = (torch.from_numpy(t) for t in given(5, 40, 96, group))
        for kind in (torch.float16, torch.bfloat16):
            args = x.to(kind), q, scale, bias, group
            torch.library.opcheck(getattr(torch.ops.dlblas, OP).default, args)
            y = dlblas.mm_w8a16(*args)
            w = q * scale.repeat_interleave(group, 1)
            w = w if group == 96 else w.to(kind)
            away = y.double() - (args[0].double() @ w.double().T + bias.double())
            assert away.abs().max() < (2e-2 if kind == torch.float16 else 0.15)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "implementation", ["", "cuda_wgmma", "cuda_ring", "cuda_packed", "cuda_dequantized"]
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("group", [-1, 128])
def test_products_on_a_gpu(implementation: str, dtype: str, group: int) -> None:
    torch = pytest.importorskip("torch")
    if implementation in ("cuda_wgmma", "cuda_ring") and group != -1:
        pytest.skip(f"{implementation} takes one scale per output")
    if implementation == "cuda_wgmma" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("WGMMA is Hopper's")
    if implementation:
        dlblas.pin(OP, implementation)
    try:
        for rows, depth, columns in [
            (1, 4096, 4096), (16, 4096, 14336), (300, 4096, 4096), (8, 512, 131), (17, 1024, 72),
            (33, 256, 1), (3, 1920, 200), (2, 128, 64), (64, 4096, 1000), (41, 2176, 515),
        ]:  # fmt: skip
            q = torch.randint(-128, 128, (columns, depth), device="cuda", dtype=torch.int8)
            groups = 1 if group == -1 else depth // group
            scale = torch.rand(columns, groups, device="cuda") / 64 + 1e-3
            bias = torch.randn(columns, device="cuda")
            x = torch.randn(rows, depth, device="cuda", dtype=getattr(torch, dtype))
            y = dlblas.mm_w8a16(x, q, scale, bias, group)
            w = q * scale.repeat_interleave(depth // groups, 1)
            w = w.double() if group == -1 else w.to(x.dtype).double()
            expected = x.double() @ w.T + bias.double()
            away = (y.double() - expected).norm() / expected.norm()
            assert away < (4e-4 if dtype == "float16" else 3e-3), (rows, depth, columns)
            assert (y.double() - expected).abs().max() < 0.01 * expected.abs().max()
    finally:
        dlblas.pin(OP, None)
