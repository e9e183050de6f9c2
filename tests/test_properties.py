"""Properties that hold for any input, searched by Hypothesis: algebra of the operators, keys,
spaces.

Derandomised, so that each run repeats the last one; few examples, so that it is quick.
Read next: tests/test_harness.py.
"""

from __future__ import annotations

import random
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import _native, spaces
from hypothesis import assume, given, settings
from hypothesis import strategies as st

PROFILE = settings(max_examples=25, deadline=None, derandomize=True, database=None)


def fast(op: str) -> list[str]:
    """The implementations that this machine can run, except the reference."""
    info = _native.operator_row(op)
    spec = dlblas.Spec
    args = (spec((4, 8), "f32"), spec((8, 8), "f32")) if op == "matmul" else (spec((4, 8), "f32"),)
    args += (spec((8,), "f32"),) * (op != "matmul") + (spec((4, 8), "f32"),) * (op[:3] == "add")
    rows = dlblas.explain(op, *args).as_dict()["candidates"]
    runs = {row["implementation"] for row in rows if row["supports"]}
    return [i["name"] for i in info["implementations"] if i["name"] in runs and not i["oracle"]]


def normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 130)


@pytest.mark.parametrize("implementation", fast("rms_norm"))
@PROFILE
@given(seed=seeds, rows=st.integers(1, 9), width=sizes, exponent=st.integers(-20, 20))
def test_norm_does_not_see_the_scale_of_x(
    implementation: str, seed: int, rows: int, width: int, exponent: int
) -> None:
    """Without eps, scaling by a power of two changes no bit."""
    x, w = normal(seed, rows, width), normal(seed + 1, width)
    with dlblas.pinned("rms_norm", implementation):
        y = dlblas.rms_norm(x, w, 0.0)
        np.testing.assert_array_equal(dlblas.rms_norm(x * np.float32(2.0**exponent), w, 0.0), y)
        np.testing.assert_array_equal(dlblas.rms_norm(-x, w, 0.0), -y)


@pytest.mark.parametrize("implementation", fast("rms_norm"))
@PROFILE
@given(seed=seeds, rows=st.integers(1, 9), width=sizes, exponent=st.integers(-20, 20))
def test_norm_is_linear_in_the_weight(
    implementation: str, seed: int, rows: int, width: int, exponent: int
) -> None:
    x, w, scale = normal(seed, rows, width), normal(seed + 1, width), np.float32(2.0**exponent)
    with dlblas.pinned("rms_norm", implementation):
        y = dlblas.rms_norm(x, w)
        np.testing.assert_array_equal(dlblas.rms_norm(x, w * scale), y * scale)
        # weight_offset is added to the weight: exact for weights of few bits.
        small = np.round(w * 4) / np.float32(4)
        shifted = dlblas.rms_norm(x, small, weight_offset=1.0)
        np.testing.assert_array_equal(shifted, dlblas.rms_norm(x, small + np.float32(1)))


@pytest.mark.parametrize("implementation", fast("add_rms_norm"))
@PROFILE
@given(seed=seeds, rows=st.integers(1, 9), width=sizes)
def test_add_norm_is_the_norm_of_the_sum(
    implementation: str, seed: int, rows: int, width: int
) -> None:
    x, residual, w = normal(seed, rows, width), normal(seed + 1, rows, width), normal(seed, width)
    with dlblas.pinned("add_rms_norm", implementation):
        y, kept = dlblas.add_rms_norm(x, w, residual)
        swapped, _ = dlblas.add_rms_norm(residual, w, x)
    np.testing.assert_array_equal(kept, x + residual)
    np.testing.assert_array_equal(swapped, y)
    assert dlblas.verify("rms_norm", (kept, w), y).ok


def integers(seed: int, *shape: int) -> Any:
    """Small integers: f32 sums of their products are exact in any order."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize("implementation", fast("matmul"))
@PROFILE
@given(seed=seeds, m=st.integers(1, 8), k=sizes, n=sizes)
def test_matmul_of_whole_numbers_is_exact_and_linear(
    implementation: str, seed: int, m: int, k: int, n: int
) -> None:
    a, b, c = integers(seed, m, k), integers(seed + 1, k, n), integers(seed + 2, m, k)
    with dlblas.pinned("matmul", implementation):
        ab, cb = dlblas.matmul(a, b), dlblas.matmul(c, b)
        np.testing.assert_array_equal(ab, (a.astype(np.int64) @ b.astype(np.int64)))
        np.testing.assert_array_equal(dlblas.matmul(a + c, b), ab + cb)
        np.testing.assert_array_equal(dlblas.matmul(a, np.eye(k, dtype=np.float32)), a)


@PROFILE
@given(seed=seeds, m=sizes, k=sizes, n=sizes)
def test_transposed_product_is_the_product_of_transposes(seed: int, m: int, k: int, n: int) -> None:
    a, b = integers(seed, m, k), integers(seed + 1, k, n)
    for implementation in ("cpu_baseline", "reference"):
        with dlblas.pinned("matmul", implementation):
            np.testing.assert_array_equal(dlblas.matmul(b.T, a.T), dlblas.matmul(a, b).T)


DTYPES = ("f32", "f16", "bf16")
problems = st.fixed_dictionaries(
    {
        "tokens": st.integers(0, 300),
        "width": st.integers(2, 6),
        "dtype": st.sampled_from(DTYPES),
        "weight": st.sampled_from(("same", "f32")),
        "pitch": st.integers(0, 1),
        "cast": st.booleans(),
    }
)


def key_of(p: dict[str, Any]) -> str:
    strides = (p["width"] + 16 * p["pitch"], 1)
    x = dlblas.Spec((p["tokens"], p["width"]), p["dtype"], strides)
    weight = dlblas.Spec((p["width"],), p["dtype"] if p["weight"] == "same" else "f32")
    explained = dlblas.explain("rms_norm", x, weight, cast_before_weight=p["cast"])
    return str(explained.as_dict()["problem"])


def bucket_of(tokens: int) -> int:
    plain = {"tokens": tokens, "width": 4, "dtype": "f32", "weight": "same", "pitch": 0, "cast": 0}
    return int(key_of({**plain, "cast": False}).split("T=")[1].split()[0])


def canonical(p: dict[str, Any]) -> tuple[Any, ...]:
    """What a choice may depend on: bucketed tokens, the width, dtypes, layout, key scalars."""
    weight = p["dtype"] if p["weight"] == "same" else "f32"
    strided = bool(p["pitch"]) and p["tokens"] > 1
    # Every row is aligned to the largest power of two, up to 16, that divides the pitch in bytes.
    size = 4 if p["dtype"] == "f32" else 2
    pitch = (p["width"] + 16 * p["pitch"]) * size if p["tokens"] != 1 else 0
    align = min(16, pitch & -pitch) if pitch else 16
    return bucket_of(p["tokens"]), p["width"], p["dtype"], weight, strided, p["cast"], align


@settings(PROFILE, max_examples=200)
@given(one=problems, other=problems, taken=st.lists(st.booleans(), min_size=6, max_size=6))
def test_keys_are_equal_exactly_when_problems_are(
    one: dict[str, Any], other: dict[str, Any], taken: list[bool]
) -> None:
    """``other`` takes some of its fields from ``one``, so the two differ in little or nothing."""
    assume(one["tokens"] > 0 and other["tokens"] > 0)
    for name, take in zip(one, taken, strict=True):
        other[name] = one[name] if take else other[name]
    assert (key_of(one) == key_of(other)) == (canonical(one) == canonical(other))


@PROFILE
@given(field=st.sampled_from(("width", "dtype", "weight", "pitch", "cast")), base=problems)
def test_every_field_is_in_the_key(field: str, base: dict[str, Any]) -> None:
    base = {**base, "tokens": 40, "dtype": "bf16"}
    changed = {"width": base["width"] + 1, "dtype": "f16", "pitch": 1 - base["pitch"]}
    changed |= {"weight": "f32" if base["weight"] == "same" else "same", "cast": not base["cast"]}
    assert key_of(base) != key_of({**base, field: changed[field]})


@PROFILE
@given(tokens=st.integers(1, 100_000))
def test_buckets_hold_their_tokens(tokens: int) -> None:
    """A bucket is tuned at its upper end: no less than any size in it, and at most twice any."""
    bucket = bucket_of(tokens)
    assert tokens <= bucket < 2 * tokens or tokens == bucket == 1
    assert bucket_of(bucket) == bucket
    assert bucket_of(tokens + 1) >= bucket


@PROFILE
@given(seed=seeds, m=st.integers(1, 260), k=st.integers(1, 520), n=st.integers(1, 80))
def test_a_configuration_runs_or_names_the_constraint_it_breaks(
    seed: int, m: int, k: int, n: int
) -> None:
    """Outside the space, it is refused with the constraint's name; inside, the result is right."""
    info = next(row for row in dlblas.info()["operators"] if row["name"] == "matmul")
    implementation = next(i for i in info["implementations"] if i["name"] == "cpu_baseline")
    rng = random.Random(seed)
    config = {knob["name"]: rng.choice(knob["values"]) for knob in implementation["knobs"]}
    a, b = integers(seed, m, k), integers(seed + 1, k, n)
    with dlblas.pinned("matmul", "cpu_baseline", config):
        try:
            product = dlblas.matmul(a, b)
        except dlblas.errors.UnsupportedError as refusal:
            assert "breaks the constraint" in str(refusal)
        else:
            np.testing.assert_array_equal(product, a.astype(np.int64) @ b.astype(np.int64))


@PROFILE
@given(least=st.integers(0, 600), most=st.integers(0, 600), seed=seeds)
def test_where_keeps_exactly_what_it_says(least: int, most: int, seed: int) -> None:
    domains = {"impl": {"block_m": [96, 192, 384], "pack_a": [0, 1], "order": ["columns", "rows"]}}
    text = f"block_m >= {least} and (block_m < {most} or order == 'rows') and not pack_a == 1"
    keep = spaces.compile_where(text, domains)
    assert keep is not None
    rng = random.Random(seed)
    config = {name: rng.choice(values) for name, values in domains["impl"].items()}
    expected = eval(text, {}, dict(config))
    assert bool(keep("impl", " ".join(f"{k}={v}" for k, v in config.items()))) == expected
