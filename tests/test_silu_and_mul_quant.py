"""``dlblas.silu_and_mul_quant``: each granularity calls the operator that it names; y is rounded
once; zeros have a finite scale; what is not offered is refused.

Read next: ops/activation/api.py, ops/activation/gated_codes_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest

GROUPS = {"group32": 32, "group64": 64, "group128": 128}
LARGEST = {"f8e4m3": 448, "f8e5m2": 57344, "i8": 127}
TYPES = {
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "i8": np.int8,
}


def made(shape: tuple[int, ...], seed: int = 3) -> Any:
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return x * np.exp2(np.arange(x.size) % 5).astype(np.float32).reshape(shape)


def gated(x: Any) -> Any:
    gate, up = np.split(x.astype(np.float64), 2, -1)
    return gate / (1 + np.exp(-gate)) * up


def each(scale: Any, shape: tuple[int, ...], granularity: str) -> Any:
    scale = np.asarray(scale).astype(np.float64)
    if granularity in GROUPS:
        return np.repeat(scale, GROUPS[granularity], -1)[..., : shape[-1]]
    return np.broadcast_to(scale, shape)


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("granularity", ["token", *GROUPS, "tensor"])
@pytest.mark.parametrize("shape", [(6, 640), (2, 3, 400), (154,)])
def test_what_comes_back_is_the_product(
    granularity: str, shape: tuple[int, ...], dtype: str
) -> None:
    x = made(shape)
    given = np.float32(0.25).reshape(()) if granularity == "tensor" else None
    q, scale = dlblas.silu_and_mul_quant(x, granularity, scale=given, dtype=dtype)
    y = gated(x)
    scales = each(scale, y.shape, granularity)
    codes = np.asarray(q).astype(np.float64)
    assert codes.shape == y.shape
    clipped = np.clip(y, -LARGEST[dtype] * scales, LARGEST[dtype] * scales)
    if dtype == "i8":
        step = scales / 2
        clipped = np.where((y < 0) & (given is not None), np.maximum(y, -128 * scales), clipped)
    else:
        bits = 4 if dtype == "f8e4m3" else 3
        step = np.maximum(np.abs(clipped) * 2.0**-bits, scales * 2.0**-10)
    assert (np.abs(codes * scales - clipped) <= 1.001 * step).all()
    if granularity != "tensor":
        width = y.shape[-1]
        largest = np.abs(codes).reshape(-1, width)[:, : GROUPS.get(granularity, width)]
        assert (largest.max(-1) == LARGEST[dtype]).all()


def test_a_granularity_is_the_operator_that_it_names() -> None:
    x, scale = made((6, 640)), np.float32(0.5).reshape(())
    pairs = [
        (dlblas.silu_and_mul_quant(x), dlblas.silu_and_mul_quant_token(x)),
        (
            dlblas.silu_and_mul_quant(x, granularity="group64"),
            dlblas.silu_and_mul_quant_group(x, group=64),
        ),
    ]
    for got, wanted in pairs:
        for a, b in zip(got, wanted, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    fixed = dlblas.silu_and_mul_quant_static(x, scale)
    got = dlblas.silu_and_mul_quant(x, "tensor", scale=scale)
    assert np.asarray(got[0]).tobytes() == np.asarray(fixed).tobytes() and got[1] is scale


def test_nothing_is_rounded_to_16_bits_between() -> None:
    x = made((64, 1024)).astype(ml_dtypes.bfloat16)
    q, scale = dlblas.silu_and_mul_quant(x)
    exact = gated(x) / np.asarray(scale)
    narrow = gated(x).astype(ml_dtypes.bfloat16).astype(np.float64) / np.asarray(scale)
    codes = np.asarray(q).astype(np.float32)
    once = exact.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    twice = narrow.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert (once != twice).sum() > 200 > 10 * (codes != once).sum()  # at ties alone


def test_zeros_have_a_finite_scale() -> None:
    x = np.zeros((3, 400), np.float32)
    x[0, [130, 330]] = 1
    q, scale = dlblas.silu_and_mul_quant(x, "group128")
    assert scale[0, 0] == 1 and (scale[1:] == 1).all() and 0 < scale[0, 1] < 1
    assert not np.asarray(q).astype(np.float32)[1:].any()
    _, scale = dlblas.silu_and_mul_quant(x)
    assert (scale[1:] == 1).all()


def test_any_strides_in_groups_of_any_width() -> None:
    x = made((60, 40)).T
    for group in (7, 32):
        q, scale = dlblas.silu_and_mul_quant_group(x, group=group)
        again = dlblas.silu_and_mul_quant_group(np.ascontiguousarray(x), group=group)
        assert np.asarray(q).tobytes() == np.asarray(again[0]).tobytes()
        np.testing.assert_array_equal(scale, again[1])


def test_what_is_not_offered_says_what_is() -> None:
    x, scale = made((2, 1, 8)), np.float32(1).reshape(())
    for argument, how in (
        ("granularity", {"granularity": "channel"}),
        ("scale", {"granularity": "tensor", "masked_m": np.ones(2, np.int32)}),
        ("scale", {"granularity": "token", "scale": scale}),
    ):
        with pytest.raises(dlblas.errors.ArgumentError) as caught:
            dlblas.silu_and_mul_quant(x, **how)
        assert caught.value.argument == argument
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        dlblas.silu_and_mul_quant(made((2, 7)))


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("granularity", GROUPS)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_rows_that_experts_have(granularity: str, dtype: str, kind: Any) -> None:
    experts, rows, width = 5, 7, 320
    x = made((experts, rows, 2 * width))
    counts = np.array([0, 3, 7, 1, 6], kind)
    there = np.arange(rows) < counts[:, None]
    x[~there] = np.nan  # never read
    q, scale = dlblas.silu_and_mul_quant(x, granularity, dtype=dtype, masked_m=counts)
    wanted = dlblas.silu_and_mul_quant(x, granularity, dtype=dtype)
    assert q.shape == wanted[0].shape and scale.shape == wanted[1].shape
    near = np.abs(np.asarray(scale)[there] / np.asarray(wanted[1])[there] - 1)
    assert near.max() < 2.0**-19
    codes = [np.asarray(a).astype(np.float32)[there] for a in (q, wanted[0])]
    assert (codes[0] != codes[1]).mean() < 2e-3  # a quotient on a tie
    op, arguments = "silu_and_mul_quant_masked", (x, counts, GROUPS[granularity], dtype)
    assert dlblas.verify(op, arguments, (q, scale)).ok


def test_other_rows_keep_what_they_hold() -> None:
    x, counts = made((3, 4, 512)), np.array([2, 0, 4])
    q = np.full((3, 4, 256), 77, np.int8)
    scale = np.full((3, 4, 2), -1, np.float32)
    dlblas.silu_and_mul_quant_masked(x, counts, 128, "i8", out=(q, scale))
    there = np.arange(4) < counts[:, None]
    assert (q[~there] == 77).all() and (scale[~there] == -1).all()
    assert (scale[there] > 0).all()
    # Rows beyond an expert's count are not judged; the others are.
    arguments = (x, counts, 128, "i8")
    q[1], scale[1] = 5, np.nan
    assert dlblas.verify("silu_and_mul_quant_masked", arguments, (q, scale)).ok
    scale[0, 1, 1] *= 1.01
    assert dlblas.verify("silu_and_mul_quant_masked", arguments, (q, scale)).wrong == 1


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("granularity", ["token", "tensor"])
def test_counts_of_rows_without_groups(granularity: str, dtype: str) -> None:
    """Rows within a count have the results that they have alone, whatever the other rows hold."""
    x, counts = made((3, 4, 64)), np.array([2, 0, 4])
    there = np.arange(4) < counts[:, None]
    x[~there] = np.nan
    scale = 0.5 if granularity == "tensor" else None
    q, scales = dlblas.silu_and_mul_quant(x, granularity, scale=scale, dtype=dtype, masked_m=counts)
    alone = dlblas.silu_and_mul_quant(x[there], granularity, scale=scale, dtype=dtype)
    codes = [np.asarray(a).view(np.uint8) for a in (q, alone[0])]
    assert q.shape == (3, 4, 32) and np.array_equal(codes[0][there], codes[1])
    if granularity == "token":
        assert np.array_equal(np.asarray(scales)[there], alone[1])


def test_counts_that_do_not_fit() -> None:
    x, counts = made((2, 3, 256)), np.array([1, 2])
    with pytest.raises(dlblas.errors.ArgumentError, match="group is not offered"):
        dlblas.silu_and_mul_quant_masked(x, counts, 48)
    for granularity in ("group128", "token", "tensor"):
        how = {"scale": 0.5 if granularity == "tensor" else None}
        for wrong, cls in (
            (np.array([1, 2, 3]), dlblas.errors.ShapeMismatchError),
            (np.array([1.0, 2.0]), dlblas.errors.UnsupportedDtypeError),
        ):
            with pytest.raises(cls) as caught:
                dlblas.silu_and_mul_quant(x, granularity, masked_m=wrong, **how)
            assert caught.value.argument == "masked_m"
        with pytest.raises(dlblas.errors.ShapeMismatchError) as caught:
            dlblas.silu_and_mul_quant(x[0], granularity, masked_m=counts, **how)
        assert caught.value.argument == "x"


@pytest.mark.parametrize("dtype", LARGEST)
def test_one_scale_found_over_all_rows_is_two_launches(dtype: str) -> None:
    x = made((3, 5, 64)).astype(np.float16)
    q, scale = dlblas.silu_and_mul_quant(x, "tensor", dtype=dtype)
    codes, found = dlblas.quantize(dlblas.silu_and_mul(x), "tensor", dtype)
    assert np.asarray(q).tobytes() == np.asarray(codes).tobytes() and scale == found
    out = np.empty_like(q), np.empty((), "f")
    assert dlblas.silu_and_mul_quant(x, "tensor", dtype=dtype, out=out) is out
    assert out[0].tobytes() == np.asarray(q).tobytes() and out[1] == scale
