"""Judges must be able to refuse. For the operators whose own judge decides (ids with ties, samples,
which values of a row stay), a spoilt result is refused at every size of every letter, and the
results of the reference and the built-in CPU implementations pass.

Whether a spoilt result is wrong is computed in NumPy and f64: one that f32 cannot tell from a right
one is left out, and a test fails if a way to be wrong was never tried. Read next:
judge_perturbations.py, ops/moe/tests.py (the ways), test_oracle_says_no.py (all other operators).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import oracle_perturbations as oracle
import pytest
from depth import depth_of
from dlblas._functions import FUNCTIONS
from dlblas.harness.call import numpy_dtype
from judge_perturbations import APART, INF, LONG, Problem, options_of, problem, right_of, spoiler_of
from levels import LEVELS
from test_sampling import philox

pytestmark = pytest.mark.attack("wrong ids, samples and filtered rows, before their judges")
SIZES = (1, 2, 3, 31, 64, 127, 1000, 4096, 65537)
IN_A_SAMPLE = 3  # sizes of a letter
JUDGED = [op for op, facts in oracle.REGISTRY.operators.items() if facts["judge"]]
FEW = 32  # of many rows that differ, so many are looked at
# The judge checks all rows of SMALL problems. For larger ones it checks FEW of the rows that
# differ, and all rows for one in ALL_ROWS spoilt results.
ALL_ROWS = 16


def refuse_all(case: Problem, seed: int) -> list[str]:
    """Returns every way of being wrong that was tried."""
    rng = np.random.default_rng(seed)
    right = right_of(case.op, case.args)
    verdict = case.verify(*right)
    assert verdict.ok, f"{case.text}: the judge refuses the reference: {verdict}"
    ways, is_wrong = spoiler_of(case.op).spoilt(case, right, rng)
    tried: list[str] = []
    for way, out in ways:
        rows = differing(right, out)[:FEW].tolist()
        if any(is_wrong(row, out) for row in rows):
            verdict = case.verify(*out, rows=rows if case.large and len(tried) % ALL_ROWS else None)
            assert verdict.wrong > 0 and not verdict.ok, f"{case.text}: {way} passes: {verdict}"
            tried.append(way)
    return tried


def differing(right: tuple[Any, ...], out: tuple[Any, ...]) -> Any:
    """Rows with an element that changed, or became NaN."""
    rows = np.zeros(len(right[0]), bool)
    for a, b in zip(right, out, strict=True):
        rows |= ((a != b) & ~((a != a) & (b != b))).any(-1)
    return np.flatnonzero(rows)


def drawn(op: str, letter: str) -> Iterator[Problem]:
    """At full depth, every size with every option. Otherwise some sizes, the largest among them,
    with one option each, and then the other sizes for as long as the caller takes more."""
    depth, options = depth_of(), options_of(op)
    draw = random.Random(f"{op} {letter} {depth.seed}")
    longest = spoiler_of(op).letters[letter]
    sizes = [size for size in SIZES if size <= longest]
    if depth.full:
        for size, chosen in itertools.product(sizes, options):
            yield problem(op, letter, size, chosen, size)
        if longest > sizes[-1]:
            yield problem(op, letter, longest, draw.choice(options), longest)
        return
    first = [*draw.sample(sizes[:-1], IN_A_SAMPLE - 1), sizes[-1]]
    for size in [*first, *(size for size in reversed(sizes) if size not in first), *sizes]:
        yield problem(op, letter, size, draw.choice(options), draw.randrange(2**20))


EVERY = [(op, letter) for op in JUDGED for letter in spoiler_of(op).letters]


@pytest.mark.parametrize(("op", "letter"), EVERY)
def test_wrong_results_are_refused_at_every_size(op: str, letter: str) -> None:
    left = {*spoiler_of(op).owed(letter)}
    for count, case in enumerate(drawn(op, letter)):
        if count >= IN_A_SAMPLE and not left and not depth_of().full:
            break
        left -= {*refuse_all(case, seed=count)}
    assert not left, f"never tried: {sorted(left)}"


@pytest.mark.parametrize("op", JUDGED)
def test_every_letter_of_an_operator_with_a_judge_is_tried(op: str) -> None:
    letters = {row["name"] for row in oracle.REGISTRY.operators[op]["letters"]}
    assert letters <= {*spoiler_of(op).letters}


@pytest.mark.parametrize(("op", "letter"), EVERY)
def test_right_implementations_pass_at_every_size(op: str, letter: str) -> None:
    """Every built-in CPU implementation, including the reference. At full depth, a third of the
    large problems."""
    names = [row["name"] for row in oracle.REGISTRY.implementations(op)]
    ran = set()
    full = depth_of().full
    for i, case in enumerate(itertools.islice(drawn(op, letter), None if full else IN_A_SAMPLE)):
        if full and i % 3 and case.large:
            continue
        for name in names:
            with dlblas.pinned(op, name):
                try:
                    made = FUNCTIONS[op].call(**case.args)
                except dlblas.errors.UnsupportedError:
                    continue
            verdict = case.verify(*(made if isinstance(made, tuple) else (made,)))
            assert verdict.ok, f"{case.text}, {name}: {verdict}"
            ran.add(name)
    asked_for = {*names} & {*LEVELS, "cpu_rows", "reference"}
    assert asked_for <= ran and len(ran) > 1, f"took no part: {sorted(asked_for - ran)}"


WIDTHS = (*SIZES[2:], LONG) if depth_of().full else SIZES[2:]


@pytest.mark.parametrize("op", ["topk_softmax", "topk_sigmoid", "grouped_topk"])
def test_ties_and_nan_have_one_order(op: str) -> None:
    """Among equal logits the lower expert comes first; NaN comes first of all, and its weight is
    NaN."""
    for experts in WIDTHS:
        x = np.zeros((3, experts), np.float32)
        x[1, experts // 2 :: 2] = 1
        x[2, experts - 1] = np.nan
        case = Problem(op, op, {"logits": x, "topk": 2}, {})
        weights, ids = right_of(op, case.args)
        assert case.verify(weights, ids).ok and ids[2, 0] == experts - 1

        def refused(row: int, places: Any, new: Any, which: int) -> bool:
            out = (weights.copy(), ids.copy())  # noqa: B023 - called here alone
            out[which][row, places] = new
            verdict = case.verify(*out)  # noqa: B023
            return bool(verdict.wrong > 0 and not verdict.ok)

        assert refused(0, [0, 1], [1, 0], 1), experts
        assert refused(0, 1, 2, 1) and refused(0, 0, experts - 1, 1), experts
        assert refused(1, [0, 1], ids[1, ::-1], 1), experts
        assert refused(2, 0, 1, 1) and refused(2, 0, 0.5, 0), experts


SCORED: list[tuple[str, dict[str, Any]]] = [("topk_softmax", {}), ("topk_sigmoid", {})]
SCORED += [("grouped_topk", {"scoring": scoring}) for scoring in ("sigmoid", "softmax")]


def accepts_a_swap(op: str, given: dict[str, Any], others: Any) -> bool:
    """Whether the judge accepts swapping the two best experts, next to ``others``, when their gates
    differ by slightly more than f32's error."""
    softmax = "softmax" in (op.removeprefix("topk_"), given.get("scoring"))
    apart = 1.1 * APART * (1 if softmax else 1 + math.exp(0.5))
    logits = np.array([[0.5, 0.5 - apart, *others]], np.float32)
    args = {"logits": logits, "topk": 2, **given}
    weights, ids = right_of(op, args)
    assert dlblas.verify(op, (), (weights, ids), args).ok
    swaps = [(order.copy(), ids[:, ::-1].copy()) for order in (weights, weights[:, ::-1])]
    return any(dlblas.verify(op, (), swap, args).ok for swap in swaps)


@pytest.mark.parametrize(("op", "given"), SCORED)
def test_picks_that_f32_tells_apart_are_not_swapped(op: str, given: dict[str, Any]) -> None:
    for experts, renormalize in itertools.product(SIZES[2:], (True, False)):
        others = -1 - abs(np.random.default_rng(experts).standard_normal(experts - 2))
        assert not accepts_a_swap(op, {**given, "renormalize": renormalize}, others), experts


def test_beside_columns_of_one_mass_is_refused() -> None:
    """When all columns are equally likely, the judge knows the right one to within 2^-40."""
    for width in WIDTHS:
        args = {"x": np.zeros((3, width), np.float32), "seed": width}
        (right,) = right_of("sample_rows", args)
        for row, other in itertools.product(range(3), (-1, 1)):
            ids = right.copy()
            ids[row] = (ids[row] + other) % width
            assert dlblas.verify("sample_rows", (), ids, args).first_wrong == row, width


# Wrong results that judges accepted before 27 November 2026.


@pytest.mark.parametrize("probs", [False, True])
def test_a_column_of_no_mass_is_refused(probs: bool) -> None:
    """A token whose logit is −inf (masked by a grammar, for example) or whose probability is 0. Up
    to f32 rounding, the random number falls where one column ends and the next begins; the column
    without mass lies between them."""
    u = philox(1, 0, 0) / 2**64
    x = np.array([[u, 0, 1 - u]] if probs else [[math.log(u / (1 - u)), -INF, 0]], np.float32)
    args = {"x": x, "seed": 1, "probs": probs}
    for column in (0, 2):  # either side of u
        assert dlblas.verify("sample_rows", (), np.array([[column]], np.int32), args).ok
    assert not dlblas.verify("sample_rows", (), np.array([[1]], np.int32), args).ok


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_values_that_pass_through_change_by_no_rounding(dtype: str) -> None:
    """Accepted were a step down from a power of 2, the smallest numbers in both directions and, in
    f16, steps down from some other values as well."""
    if dtype == "bf16" and oracle.numpy_missing():
        pytest.skip("no ml_dtypes")
    kind = numpy_dtype(dtype)
    accepted = []
    for value in (1.0, -2.0, 0.5, 0.0, 1e-5, 0.03113, 1.5, 3.25):
        x = np.array([[value, 4, 2, 3, -5]], kind)
        right = np.array([[value, 4, 2, 3, -INF]], kind)
        args = {"x": x, "top_k": np.array([4], np.int32)}
        assert dlblas.verify("filter_rows", (), right, args).ok
        for end in (INF, -INF):
            out = right.copy()
            out[0, 0] = np.nextafter(x[0, 0], np.asarray(end, kind))
            if dlblas.verify("filter_rows", (), out, args).ok:
                accepted.append((value, float(out[0, 0])))
    assert not accepted


@pytest.mark.parametrize(("op", "given"), [SCORED[0], SCORED[3]])
@pytest.mark.parametrize("experts", [4096, 65537])
def test_what_gates_have_in_common_lets_no_picks_be_swapped(
    op: str, given: dict[str, Any], experts: int
) -> None:
    """All gates of a row are divided by one sum, so its error cannot swap any two (except with a
    bias). Next to equal logits, judges used to treat two picks as equal whose logits were 1.1e-5
    apart at 4,096 experts, 1.8e-5 at 65,537 and 2.4e-4 at 2^20; at 256, 2.7e-6."""
    assert not accepts_a_swap(op, given, np.zeros(experts - 2))
