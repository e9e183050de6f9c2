"""What is special about activations: the accuracy of exact GELU's gate far below 0, and what swiglu
refuses.

The harness covers everything else. Read next: test_cases.py, ops/activation/gates.hpp.
"""

from __future__ import annotations

import math
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentError, ShapeMismatchError

_erfc = np.vectorize(math.erfc)
LEVELS = ("cpu_baseline", "cpu_avx2", "cpu_avx512")


def gelu(x: Any) -> Any:
    return 0.5 * x * _erfc(-x / math.sqrt(2))


def gelu_tanh(x: Any) -> Any:
    y = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x / (1 + np.exp(-y))


# An error in the exponent becomes a relative error of the value: x²/2 has an error of at most 2 of
# its own roundings, y of at most 5 (gates_ref.hpp).
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("op", "formula", "roundings"),
    [
        ("gelu_and_mul", gelu, lambda x: 12 + x**2),
        ("gelu_tanh_and_mul", gelu_tanh, lambda x: 12 + 8 * np.abs(x + 0.044715 * x**3)),
    ],
)
def test_the_gate_is_exact_below_0(level: str, op: str, formula: Any, roundings: Any) -> None:
    gate = np.linspace(-9, 9, 200_001, dtype=np.float32)
    exact = formula(gate.astype(np.float64))
    with dlblas.pinned(op, level):
        try:
            got = getattr(dlblas, op)(np.concatenate([gate, np.ones_like(gate)]))
        except dlblas.errors.UnsupportedError as e:
            pytest.skip(str(e))
    off = np.abs(got - exact) / (np.abs(exact) * 2.0**-24 + 2.0**-119)
    assert (off <= roundings(gate.astype(np.float64))).all()


# e^−x subtracts x in two steps, so its error does not grow with |x|.
@pytest.mark.parametrize("level", LEVELS)
def test_silu_is_as_exact_far_from_0(level: str) -> None:
    gate = np.linspace(-80, 80, 400_001, dtype=np.float32)
    wide = gate.astype(np.float64)
    exact = wide / (1 + np.exp(-wide))
    with dlblas.pinned("silu_and_mul", level):
        try:
            got = dlblas.silu_and_mul(np.concatenate([gate, np.ones_like(gate)]))
        except dlblas.errors.UnsupportedError as e:
            pytest.skip(str(e))
    off = np.abs(got - exact) / (np.abs(exact) * 2.0**-24 + 2.0**-119)
    assert off.max() <= 8


@pytest.mark.parametrize(
    ("argument", "values", "expected"),
    [
        ("alpha", (0.0, -1.0, math.nan, math.inf), "1e-6 … 1e6"),
        ("limit", (0.0, -7.0, math.nan), "1e-6 or more"),
    ],
)
def test_swiglu_names_what_is_out_of_range(
    argument: str, values: tuple[float, ...], expected: str
) -> None:
    x, out = np.ones((2, 8), np.float32), np.full((2, 4), 5, np.float32)
    for value in values:
        options: dict[str, Any] = {argument: value}
        with pytest.raises(ArgumentError, match=f"{argument} is out of range; expected {expected}"):
            dlblas.swiglu_oai_and_mul(x, **options, out=out)
        assert (out == 5).all()
    with pytest.raises(ShapeMismatchError, match="a multiple of 2"):
        dlblas.swiglu_oai_and_mul(x[:, :7])


@pytest.mark.parametrize("interleaved", [True, False])
def test_swiglu_without_a_limit(interleaved: bool) -> None:
    gate, up = np.array([[[-3, 0.5, 40]], [[100, -200, 2]]], np.float32)
    x = np.stack([gate, up], -1).reshape(1, 6) if interleaved else np.concatenate([gate, up], -1)
    got = dlblas.swiglu_oai_and_mul(x, 1.702, math.inf, interleaved)
    want = (up + 1) * gate / (1 + np.exp(-1.702 * gate))
    np.testing.assert_allclose(got, want, rtol=2e-6)
    clamped = dlblas.swiglu_oai_and_mul(x, 1.702, 7.0, interleaved)
    assert clamped[0, 2] == pytest.approx(3 * 7 / (1 + math.exp(-1.702 * 7)), rel=1e-6)
