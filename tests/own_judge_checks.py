"""Users' operators with a judge: what the judge receives, what it may return, that a search has it
check every element, here and in a worker, and that an error in the judge never counts as a pass.

test_own_operator.py runs this file in a process of its own. Read next: own_judge_module.py.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentError, LaunchError

TESTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))
import own_judge_module  # noqa: E402


def rows_of(report: Any) -> dict[str, Any]:
    return {row["implementation"]: row for row in report["evaluated"]}


@pytest.mark.parametrize("worker", [True, False], ids=["in a worker", "here"])
def test_a_search_believes_the_judge_in_every_element(worker: bool) -> None:
    draw = np.random.default_rng(1)  # indices are the caller's, in a search too
    x = draw.integers(0, 3, (own_judge_module.ROW + 70_000, 2), np.int32)
    report = dlblas.tune("own_largest", (x,), seconds=60, force=True, worker=worker)
    rows = rows_of(report)
    for name in ("first", "last"):
        assert "failure" not in rows[name], rows[name]
    for name in ("one_row", "out_of_range", "zeros"):
        assert rows[name]["failure"] == "wrong_result", rows[name]
    assert "1 of " in rows["one_row"]["note"]
    assert f"the first at {own_judge_module.ROW} of result ids" in rows["one_row"]["note"]


@pytest.mark.parametrize("worker", [True, False], ids=["in a worker", "here"])
def test_it_sees_written_inputs_as_they_were(worker: bool) -> None:
    x = np.arange(100, dtype=np.int32)
    rows = rows_of(dlblas.tune("own_shuffle", (x,), seconds=2, force=True, worker=worker))
    assert "failure" not in rows["roll"], rows["roll"]
    assert rows["constant"]["failure"] == "wrong_result", rows["constant"]
    assert "some of the written input x" in rows["constant"]["note"]


def test_a_count_says_not_which() -> None:
    x = np.arange(8, dtype=np.int32)
    assert dlblas.verify("own_shuffle", (x,), np.roll(x, 3)).ok
    verdict = dlblas.verify("own_shuffle", (x,), np.zeros(8, np.int32))
    assert not verdict.ok and verdict.wrong == 7 and verdict.first_wrong == -1


def test_in_place_it_sees_the_input_as_it_was() -> None:
    from dlblas.harness import expand, load_registry, run_group

    registry = load_registry()
    cases = [c for c in expand(registry) if c.op == "own_rounded"]
    inplace = [c for c in cases if c.layout == "inplace"]
    outcomes = run_group(registry, cases, "floor", 3)
    failed = [o for o in outcomes if o.status == "failed"]
    assert not failed, failed[0]
    assert inplace and sum(o.status == "passed" for o in outcomes) > 5
    x = np.array([[0.5, 1.5, -3.25]], np.float32)
    for form in ("own_rounded_", "own_rounded"):
        op = dlblas.tune(form, (x,), seconds=1, force=True)
        assert op["winner"]["implementation"] == "floor"


def test_the_harness_names_a_wrong_element() -> None:
    from dlblas.harness import expand, load_registry, run_group

    registry = load_registry()
    cases = [case for case in expand(registry) if case.op == "own_largest"]
    for name, status in (("last", "passed"), ("first", "passed"), ("out_of_range", "failed")):
        outcomes = run_group(registry, cases, name, 3)
        assert status in {o.status for o in outcomes}, outcomes
        if status == "passed":
            assert "failed" not in {o.status for o in outcomes}, outcomes
    assert any("elements are wrong; first ids[" in o.reason for o in outcomes), outcomes


SCHEMA = "own_asked(x: f32[T, C], k: int = 2) -> (y: f32[T, C], n: i32[T])"


def test_what_it_is_shown() -> None:
    seen: list[Any] = []

    def judge(inputs: Any, results: Any, reference: Any) -> Any:
        seen.append((inputs, results, reference))
        inputs.x[...] = 7  # its own
        return np.zeros(results.y.shape, bool), np.zeros(3, bool)

    def reference(x: Any, k: int) -> Any:
        return np.ma.MaskedArray(x * k, x < 0), np.arange(3)

    dlblas.register_operator(SCHEMA, reference, judge=judge)
    x = np.array([[1, -2], [3, 4], [5, 6]], np.float32)
    y, n = np.ones_like(x), np.array([3, 4, 5], np.int32)
    assert dlblas.verify("own_asked", (x,), (y, n), {"k": 3}, rows=[1]).checked == 5 + 3
    ((inputs, results, reference_),) = seen
    assert inputs.k == 3 and inputs.x.dtype == np.float64 and x[0, 0] == 1
    np.testing.assert_array_equal(results.y, y)
    assert results.n.dtype == np.int32 and list(results.n) == [3, 4, 5]
    assert reference_.y.mask.tolist() == [[False, True], [False, False], [False, False]]
    assert reference_.y[2, 1] == 18 and list(reference_.n) == [0, 1, 2]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda i, r, w: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda i, r, w: None, "returned NoneType for y"),
        (lambda i, r, w: True, "returned bool for y"),
        (lambda i, r, w: 0.5, "returned float for y"),
        (lambda i, r, w: np.zeros((3, 1), bool), r"returned bool\[3, 1\] for y"),
        (lambda i, r, w: np.zeros((3, 2)), r"returned float64\[3, 2\] for y"),
        (lambda i, r, w: (0, 0), "returned 2 answers; expected 1"),
        (lambda i, r, w: -1, "expected at most 6 wrong elements"),
        (lambda i, r, w: 7, "expected at most 6 wrong elements"),
    ],
)
def test_an_error_of_the_judge_is_no_pass(answer: Any, words: str) -> None:
    schema = "own_misjudged(x: f32[T, C]) -> y: f32[T, C]"
    dlblas.register_operator(schema, lambda x: x, judge=answer)
    x = np.ones((3, 2), np.float32)
    with pytest.raises(LaunchError, match="own_misjudged: judge failed; .*" + words):
        dlblas.verify("own_misjudged", (x,), x.copy())

    def copy(x: Any, y: Any) -> None:
        y[...] = x

    dlblas.register("own_misjudged", "copy", copy)
    with pytest.raises(LaunchError, match="own_misjudged: judge failed; .*" + words):
        dlblas.tune("own_misjudged", (x,), seconds=1, worker=False)


def test_a_judge_neither_comes_nor_goes() -> None:
    schema = "own_unjudged(x: f32[T]) -> y: f32[T]"
    dlblas.register_operator(schema, lambda x: x)
    with pytest.raises(ArgumentError, match=r"judge differs from the one .* expected none"):
        dlblas.register_operator(schema, lambda x: x, judge=lambda i, r, w: 0)
    for judge, words in (
        (3, "judge has the wrong type"),
        (lambda a: 0, "judge does not take three arguments"),
    ):
        with pytest.raises(ArgumentError, match=words):
            dlblas.register_operator(schema, lambda x: x, judge=judge)  # type: ignore[arg-type]


def test_another_judge_is_another_key() -> None:
    schema = "own_rejudged(x: f32[T]) -> y: f32[T]"
    x = np.arange(5, dtype=np.float32)
    dlblas.register_operator(schema, lambda x: x, judge=lambda i, r, w: int((r.y != i.x).sum()))

    def copy(x: Any, y: Any) -> None:
        y[...] = x

    dlblas.register("own_rejudged", "copy", copy)
    dlblas.tune("own_rejudged", (x,), seconds=1)
    assert dlblas.explain("own_rejudged", x).as_dict()["source"] == "store"
    dlblas.register_operator(schema, lambda x: x, judge=lambda i, r, w: int((r.y == i.x).sum()))
    assert dlblas.explain("own_rejudged", x).as_dict()["source"] != "store"
    assert not dlblas.verify("own_rejudged", (x,), x.copy()).ok
