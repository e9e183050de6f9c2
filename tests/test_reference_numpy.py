"""The oracle against independent NumPy formulas in f64, its bounds against the accuracy that
operators promise, and the verdict against known errors.

Read next: ops/<family>/formulas.py, python/dlblas/oracle.py.
"""

from __future__ import annotations

import functools
from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest
from depth import some
from dlblas.harness import Case, expand, load_registry
from dlblas.harness.call import Call
from dlblas.harness.checks import formula_values, round_to

REGISTRY = load_registry()
FINITE = ("normal", "positive", "negzero", "denormal")
# The contract's relative Frobenius error of results. 8-bit codes have none: each element has its
# own bound.
BARS = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 4e-3}


@functools.cache
def contiguous() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {op: [] for op in REGISTRY.operators}
    for case in expand(REGISTRY):
        if case.layout == "contiguous":
            found[case.op].append(case)
    return found


def sampled(op: str) -> list[Case]:
    """Every contiguous case of modest size."""
    cases = contiguous()[op]
    sizes = [int(np.prod([np.prod(v) for v in c.dims.values()])) for c in cases]
    return [c for c, size in zip(cases, sizes, strict=True) if 0 < size <= 200_000]


@pytest.mark.parametrize("op", sorted(REGISTRY.operators))
def test_f64_values_equal_the_formula(op: str) -> None:
    compared = 0
    for case in sampled(op):
        if case.values not in FINITE:
            continue  # non-finite values are compared with rounded results, by the harness
        call = Call(REGISTRY, case, seed=11)
        oracle = dlblas.reference(op, (), call.before())
        wanted = formula_values(REGISTRY, call)
        for want, ref, result in zip(wanted, oracle, call.outcome(), strict=True):
            allowed = np.minimum(4096 * 2.0**-52 * ref.magnitude, ref.allowed()) + 2.0**-1000
            with np.errstate(invalid="ignore"):  # the same infinity
                right = np.abs(ref.value - want) <= allowed
            if result.dtype.itemsize == 1:  # the value may be a code: the formula's, rounded
                right |= ref.value == round_to(result.dtype, want)
            right |= (ref.magnitude < 0) | (ref.value == want)  # undefined; infinite
            assert right.all(), f"{case} {ref.name}"
            compared += int(np.sum(~(ref.magnitude < 0)))
    assert compared > 1_000


@pytest.mark.parametrize("op", sorted(REGISTRY.operators))
def test_implementations_meet_the_promised_accuracy(op: str) -> None:
    checked = set()
    normal = [case for case in sampled(op) if case.values == "normal"]
    of_dtype: dict[str, list[Case]] = {}
    for case in normal:
        of_dtype.setdefault(case.dtype, []).append(case)
    for case in (c for d, cases in of_dtype.items() for c in some(cases, 3, f"{op} {d}")):
        for impl in REGISTRY.implementations(op):
            call = Call(REGISTRY, case, seed=12)
            with dlblas.pinned(op, impl["name"]):
                try:
                    call.run(0xA5)
                except dlblas.errors.UnsupportedError:
                    continue
            verdict = dlblas.verify(op, (), call.out(), call.before())
            assert verdict.ok, f"{case} {impl['name']}: {verdict}"
            dtypes = [t.dtype for t in call.outcome()]
            if not any(dtype.itemsize == 1 for dtype in dtypes):
                bar = max(BARS.get(dtype.name, 0) for dtype in dtypes)
                assert verdict.relative <= bar, f"{case} {impl['name']}: {verdict}"
            checked.add((impl["name"], case.dtype))
    each = [tensor["dtypes"] for tensor in REGISTRY.operators[op]["tensors"]]
    taken = next((dtypes for dtypes in each if len(dtypes) > 1), each[0])
    assert {dtype for _, dtype in checked} == set(taken)


@pytest.mark.parametrize("op", sorted(REGISTRY.operators))
def test_chosen_rows_are_those_of_the_whole(op: str) -> None:
    cases = [c for c in sampled(op) if c.name == "primes"]
    case = min(cases, key=lambda c: c.dtype != "f32")  # the next best where an operator has no f32
    call = Call(REGISTRY, case, seed=13)
    whole = dlblas.reference(op, (), call.before())
    # A result judged by element (lse beside the rows of out) has rows of one element.
    first = dlblas.reference(op, (), call.before(), rows=[0])
    widths = [r.value.shape[-1] if r.value.ndim else 1 for r in first]
    all_rows = [r.value.reshape(-1, width) for r, width in zip(whole, widths, strict=True)]
    most = max(map(len, all_rows))
    indices = [row % most for row in (4, 0, 6)]  # a row may be listed more than once
    chosen = dlblas.reference(op, (), call.before(), rows=indices)
    for values, of_rows in zip(all_rows, chosen, strict=True):
        there = [row for row in indices if row < len(values)]
        np.testing.assert_array_equal(values[there], of_rows.value)


@pytest.mark.parametrize("factor", [0.9, 1.2])
def test_verdict_draws_the_line_at_the_allowed_error(factor: float) -> None:
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(n).astype(np.float32) for n in ((5, 40), 40))
    (oracle,) = dlblas.reference("rms_norm", (x, w))
    y = oracle.value.copy()
    y[3, 7] += factor * oracle.allowed()[3, 7]
    verdict = dlblas.verify("rms_norm", (x, w), y.astype(np.float32))
    if factor < 1:
        assert verdict.ok and verdict.wrong == 0
    else:
        assert (verdict.wrong, verdict.first_wrong, verdict.result) == (1, 3 * 40 + 7, 0)


def test_a_reference_that_cannot_fail_is_mistrusted() -> None:
    x, w = np.zeros((4, 8), np.float32), np.ones(8, np.float32)
    assert dlblas.verify("rms_norm", (x, w), dlblas.rms_norm(x, w)).mistrusted
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    assert not dlblas.verify("rms_norm", (x, w), dlblas.rms_norm(x, w)).mistrusted


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_round_to_keeps_every_value_and_ties_to_even(dtype: Any) -> None:
    with np.errstate(invalid="ignore"):  # signalling NaN
        every = np.arange(2**16, dtype=np.uint32).astype(np.uint16).view(dtype).astype(np.float64)
    finite = np.unique(every[np.isfinite(every)])
    np.testing.assert_array_equal(round_to(np.dtype(dtype), finite), finite)
    middle = (finite[:-1] + finite[1:]) / 2
    rounded = round_to(np.dtype(dtype), middle)
    np.testing.assert_array_equal(
        rounded, middle.astype(np.float32).astype(dtype).astype(np.float64)
    )
