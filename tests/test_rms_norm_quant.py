"""``dlblas.rms_norm_quant``, ``dlblas.add_rms_norm_quant``: each granularity calls the operator
that it names; y is rounded once; zeros have a finite scale; what is not offered is refused.

Read next: ops/norm/api.py, ops/norm/rms_norm_quant_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest

GROUPS = {"group32": 32, "group64": 64, "group128": 128}


def made(shape: tuple[int, ...], seed: int = 3) -> Any:
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return x * np.exp2(np.arange(x.size) % 5).astype(np.float32).reshape(shape)


def normed(h: Any, weight: Any, eps: float = 1e-6, offset: float = 0.0) -> Any:
    h, weight = h.astype(np.float64), weight.astype(np.float64)
    return h / np.sqrt(np.mean(h * h, -1, keepdims=True) + eps) * (weight + offset)


def each(scale: Any, shape: tuple[int, ...], granularity: str) -> Any:
    scale = np.asarray(scale).astype(np.float64)
    if granularity in GROUPS:
        return np.repeat(scale, GROUPS[granularity], -1)[..., : shape[-1]]
    return np.broadcast_to(scale, shape)


@pytest.mark.parametrize("granularity", ["token", *GROUPS, "tensor"])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("shape", [(6, 320), (2, 3, 200), (77,)])
def test_what_comes_back_is_the_norm(granularity: str, adds: bool, shape: tuple[int, ...]) -> None:
    x, residual, weight = made(shape), made(shape, 4), made(shape[-1:], 5)
    given = np.float32(0.25).reshape(()) if granularity == "tensor" else None
    how: dict[str, Any] = {"granularity": granularity, "scale": given, "weight_offset": 1.0}
    if adds:
        q, scale, hidden = dlblas.add_rms_norm_quant(x, weight, residual, **how)
        np.testing.assert_array_equal(hidden, x + residual)
        h = x + residual
    else:
        q, scale = dlblas.rms_norm_quant(x, weight, **how)
        h = x
    y, scales = normed(h, weight, offset=1.0), each(scale, shape, granularity)
    codes = np.asarray(q).astype(np.float64)
    clipped = np.clip(y, -448 * scales, 448 * scales)
    step = np.maximum(np.abs(clipped) * 2.0**-4, scales * 2.0**-10)
    assert (np.abs(codes * scales - clipped) <= 1.001 * step).all()
    if granularity != "tensor":
        largest = np.abs(codes).reshape(-1, shape[-1])[:, : GROUPS.get(granularity, shape[-1])]
        assert (largest.max(-1) == 448).all()


@pytest.mark.parametrize("adds", [False, True])
def test_a_granularity_is_the_operator_that_it_names(adds: bool) -> None:
    x, residual, weight = made((6, 320)), made((6, 320), 4), made((320,), 5)
    prefix, given = ("add_", (x, weight, residual)) if adds else ("", (x, weight))
    face = getattr(dlblas, f"{prefix}rms_norm_quant")
    pairs = [
        (face(*given), getattr(dlblas, f"{prefix}rms_norm_quant_token")(*given)),
        (
            face(*given, granularity="group64"),
            getattr(dlblas, f"{prefix}rms_norm_quant_group")(*given, group=64),
        ),
    ]
    for got, wanted in pairs:
        for a, b in zip(got, wanted, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    scale = np.float32(0.5).reshape(())
    fixed = getattr(dlblas, f"{prefix}rms_norm_quant_static")(*given, scale)
    got = face(*given, granularity="tensor", scale=scale)
    first = fixed[0] if adds else fixed
    assert np.asarray(got[0]).tobytes() == np.asarray(first).tobytes() and got[1] is scale


def test_nothing_is_rounded_to_16_bits_between() -> None:
    x, weight = made((64, 512)).astype(ml_dtypes.bfloat16), np.ones(512, ml_dtypes.bfloat16)
    q, scale = dlblas.rms_norm_quant(x, weight)
    exact = normed(x, weight) / np.asarray(scale)
    narrow = normed(x, weight).astype(ml_dtypes.bfloat16).astype(np.float64) / np.asarray(scale)
    codes = np.asarray(q).astype(np.float32)
    once = exact.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    twice = narrow.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert (once != twice).sum() > 200 > 10 * (codes != once).sum()  # at ties alone


def test_zeros_have_a_finite_scale() -> None:
    x, weight = np.zeros((3, 200), np.float32), np.ones(200, np.float32)
    x[0, 130] = 1
    q, scale = dlblas.rms_norm_quant(x, weight, granularity="group128")
    assert scale[0, 0] == 1 and (scale[1:] == 1).all() and 0 < scale[0, 1] < 1
    assert not np.asarray(q).astype(np.float32)[1:].any()
    _, scale = dlblas.rms_norm_quant(x, weight)
    assert (scale[1:] == 1).all()


def test_the_sum_may_be_written_over_the_residual() -> None:
    x, weight = made((40, 30)).T, made((40,), 5)  # any strides, which the group form walks twice
    for name, more in (("token", {}), ("group", {"group": 7}), ("group", {"group": 32})):
        residual = made((40, 30), 4).T
        call = getattr(dlblas, f"add_rms_norm_quant_{name}")
        q, scale, hidden = call(x, weight, residual, **more)
        inplace = getattr(dlblas, f"add_rms_norm_quant_{name}_")
        again = inplace(x, residual, weight, **more)
        np.testing.assert_array_equal(residual, hidden)
        assert np.asarray(again[0]).tobytes() == np.asarray(q).tobytes()
        np.testing.assert_array_equal(again[1], scale)


@pytest.mark.parametrize("op", ["rms_norm_quant", "add_rms_norm_quant"])
def test_what_is_not_offered_says_what_is(op: str) -> None:
    x, weight = made((2, 4)), made((4,), 5)
    given = (x, weight, x.copy()) if op.startswith("add") else (x, weight)
    scale = np.float32(1).reshape(())
    for argument, how in (
        ("granularity", {"granularity": "channel"}),
        ("scale", {"granularity": "token", "scale": scale}),
        ("weight_offset", {"weight_offset": float("nan")}),
    ):
        with pytest.raises(dlblas.errors.ArgumentError) as caught:
            getattr(dlblas, op)(*given, **how)
        assert caught.value.argument == argument
    with pytest.raises(dlblas.errors.ArgumentError, match="eps"):
        getattr(dlblas, op)(*given, eps=-1.0)


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_one_scale_found_over_all_rows_is_two_launches(kind: Any) -> None:
    x, residual, weight = (
        made((3, 2, 40)).astype(kind),
        made((3, 2, 40), 4).astype(kind),
        made((40,)),
    )
    y, hidden = dlblas.add_rms_norm(x, weight, residual, weight_offset=1.0)
    for adds in (False, True):
        if adds:
            q, scale, h = dlblas.add_rms_norm_quant(
                x, weight, residual, granularity="tensor", weight_offset=1.0
            )
            np.testing.assert_array_equal(h, hidden)
        else:
            q, scale = dlblas.rms_norm_quant(
                hidden, weight, granularity="tensor", weight_offset=1.0
            )
        codes, found = dlblas.quantize(y, "tensor")
        assert np.asarray(q).tobytes() == np.asarray(codes).tobytes()
        np.testing.assert_array_equal(scale, found)
    out = np.empty_like(q), np.empty((), "f"), np.empty_like(x)
    made_of = dlblas.add_rms_norm_quant(
        x, weight, residual, granularity="tensor", weight_offset=1.0, out=out
    )
    assert made_of is out and out[0].tobytes() == np.asarray(q).tobytes()
    assert out[1] == scale
    np.testing.assert_array_equal(out[2], hidden)
    for place, wrong in enumerate((np.empty(3, "f"), np.empty(3, "f"), np.empty(3, "f"))):
        out[2][...] = 7
        places = [*out]
        places[place] = wrong
        with pytest.raises(dlblas.errors.Error, match="out"):
            dlblas.add_rms_norm_quant(x, weight, residual, granularity="tensor", out=tuple(places))
        assert (out[2] == 7).all()
