"""Quantisation beyond its cases: every code of every type comes back, special rows, groups of any
width, and what the oracle refuses.

Every level that this CPU has is tested. Read next: ops/common/quant_ref.hpp,
ops/common/quant_scale.hpp.
"""

from __future__ import annotations

from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest
from levels import LEVELS

LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0, "i8": 127.0}
NUMPY = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "i8": np.int8}


def codes(dtype: str) -> Any:
    """All finite values of a type."""
    every = np.arange(256, dtype=np.uint8).view(NUMPY[dtype]).astype(np.float32)
    finite = every[np.isfinite(every)]
    return finite[np.abs(finite) <= LARGEST[dtype]]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_codes_come_back(level: str, dtype: str, kind: str) -> None:
    """A row that holds the type's largest value has scale 1: representable values do not change."""
    values = codes(dtype)
    x = np.resize(values, (3, 7 * 256)).astype(getattr(ml_dtypes, kind, kind))
    x[:, ::256] = LARGEST[dtype]
    for op, arguments in (("quantize_token", ()), ("quantize_group", (256,))):
        with dlblas.pinned(op, level), dlblas.pinned("dequantize_group", level):
            q, scale = getattr(dlblas, op)(x, *arguments, dtype=dtype)
            y = dlblas.dequantize_group(q, scale, arguments[0] if arguments else x.shape[1])
        assert (np.asarray(scale) == 1).all()
        assert (np.asarray(q).astype(np.float32) == x.astype(np.float32)).all()
        assert (y == x.astype(np.float32)).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", LARGEST)
def test_ties_go_to_even_and_all_else_to_the_nearest(level: str, dtype: str) -> None:
    values = np.unique(codes(dtype).astype(np.float64))
    middles = (values[1:] + values[:-1]) / 2
    x = np.concatenate([middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)])
    near = np.concatenate([middles * (1 + 2.0**-20), middles * (1 - 2.0**-20)])
    x = np.concatenate([x, near, [LARGEST[dtype]]]).astype(np.float32)[None]
    with dlblas.pinned("quantize_token", level):
        q, scale = dlblas.quantize_token(x, dtype)
    assert scale[0, 0] == 1
    want = np.rint(x) if dtype == "i8" else x.astype(NUMPY[dtype]).astype(np.float32)
    assert (np.asarray(q).astype(np.float32) == want).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", LARGEST)
def test_special_rows(level: str, dtype: str) -> None:
    x = np.random.default_rng(1).standard_normal((6, 200)).astype(np.float32)
    x[0], x[1, 77], x[2, 150] = 0, np.nan, -np.inf
    x[3] *= 2.0**-140
    x[4] *= 1e37
    with dlblas.pinned("quantize_token", level), dlblas.pinned("dequantize_group", level):
        q, scale = dlblas.quantize_token(x, dtype)
        y = dlblas.dequantize_group(q, scale, 200)
    scale, codes_ = np.asarray(scale)[:, 0], np.asarray(q).astype(np.float32)
    assert scale[0] == 1 and (codes_[0] == 0).all() and (y[0] == 0).all()
    assert np.isnan(scale[1]) and np.isnan(y[1]).all()
    assert np.isinf(scale[2]) and np.isnan(y[2]).all()
    assert dtype == "i8" or np.isnan(codes_[1, 77])
    assert scale[3] == 2.0**-126 and np.abs(y[3] - x[3]).max() <= 2.0**-127
    for row in (4, 5):
        step = np.abs(x[row]).max() * (2.0**-2 if dtype == "f8e5m2" else 2.0**-3)
        assert np.abs(y[row] - x[row]).max() <= step
    assert dlblas.verify("quantize_token", (x, dtype), (q, scale[:, None])).ok


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("group", [1, 7, 32, 64, 100, 128, 1000])
@pytest.mark.parametrize("width", [1, 64, 333, 20000])
def test_groups_of_any_width(level: str, group: int, width: int) -> None:
    x = np.random.default_rng(group).standard_normal((3, width)).astype(np.float32)
    with dlblas.pinned("quantize_group", level):
        q, scale = dlblas.quantize_group(x, group)
    starts = np.arange(0, width, group)
    amax = np.maximum.reduceat(np.abs(x), starts, axis=-1)
    assert (np.asarray(scale) == amax / np.float32(448)).all()
    assert dlblas.verify("quantize_group", (x, group), (q, scale)).ok


def test_another_code_or_scale_is_refused() -> None:
    x = np.random.default_rng(9).standard_normal((4, 300)).astype(np.float32)
    for dtype in LARGEST:
        q, scale = (np.asarray(r) for r in dlblas.quantize_token(x, dtype))
        step = q.copy()
        bits = step.view(np.uint8)
        bits[2, 100] ^= 1
        assert dlblas.verify("quantize_token", (x, dtype), (step, scale)).wrong == 1
        other = scale.copy()
        other[1] = np.nextafter(np.nextafter(scale[1], np.inf), np.inf)
        assert dlblas.verify("quantize_token", (x, dtype), (q, other)).wrong == 1


@pytest.mark.parametrize("granularity", ["token", "group"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_as_the_formula_in_torch(granularity: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(4)
    x = torch.randn(64, 1024).to(getattr(torch, dtype))
    op = getattr(dlblas, f"quantize_{granularity}")
    q, scale = op(x)
    assert q.dtype is torch.float8_e4m3fn and scale.dtype is torch.float32
    group = 128 if granularity == "group" else 1024
    parts = x.float().unflatten(-1, (-1, group))
    wanted = parts.abs().amax(-1) / 448
    assert torch.equal(scale, wanted)
    codes_ = (parts / wanted[..., None]).to(torch.float8_e4m3fn).flatten(-2)
    # A quotient on a tie, as 16-bit inputs produce, may be rounded either way.
    steps = codes_.view(torch.uint8).int() - q.view(torch.uint8).int()
    assert steps.abs().max() <= 1 and (steps != 0).float().mean() < 2e-3
    y = dlblas.dequantize_group(q, scale, group, out_dtype=x.dtype)
    assert y.dtype is x.dtype
    assert (
        (y - x).abs() <= parts.abs().amax(-1, keepdim=True).expand_as(parts).flatten(-2) / 15
    ).all()
    compiled = torch.compile(lambda x: op(x), backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x)[0].view(torch.uint8), q.view(torch.uint8))
