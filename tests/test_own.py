"""Users' own implementations of an operator that is there: NumPy and torch functions, from
registration to serving.

Every test takes away what it registered. Read next: docs/own.md, python/dlblas/own/_register.py.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentError, LaunchError, UnknownOperatorError, UnsupportedError
from dlblas.own import _source

OP = "rms_norm"


def normalise(x: Any, weight: Any, eps: float, weight_offset: float) -> Any:
    f = x.astype(np.result_type(x.dtype, np.float32))
    scale = 1 / np.sqrt((f * f).mean(-1, keepdims=True) + eps)
    return (f * scale * (weight.astype(f.dtype) + weight_offset)).astype(x.dtype)


def mine(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = normalise(x, weight, eps, weight_offset)


def arrays(rows: int = 24, columns: int = 96, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    return x, rng.standard_normal(columns).astype(np.float32)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    def own() -> set[str]:
        row = next(r for r in dlblas.info()["operators"] if r["name"] == OP)
        return {i["name"] for i in row["implementations"] if i["user"]}

    before = own()
    yield
    for name in own() - before:
        dlblas.unregister(OP, name)


def row_of(explanation: dlblas.Explanation, name: str) -> dict[str, Any]:
    rows = explanation.as_dict()["candidates"]
    return next(row for row in rows if row["implementation"] == name)


def test_it_is_seen_pinned_and_called() -> None:
    assert dlblas.register(OP, "mine", mine) is mine
    x, w = arrays()
    row = row_of(dlblas.explain(OP, x, w), "mine")
    assert row["supports"] and not row["chosen"]
    with dlblas.pinned(OP, "mine"):
        y = dlblas.rms_norm(x, w, eps=1e-3, weight_offset=0.5)
        assert dlblas.explain(OP, x, w).as_dict()["implementation"] == "mine"
    np.testing.assert_array_equal(y, normalise(x, w, 1e-3, 0.5))
    assert dlblas.verify(OP, (x, w), y, {"eps": 1e-3, "weight_offset": 0.5}).ok


def test_unmeasured_it_loses_to_built_in_ones() -> None:
    x, w = arrays(3, 40)
    before = dlblas.explain(OP, x, w).as_dict()["implementation"]
    dlblas.register(OP, "mine", mine)
    assert dlblas.explain(OP, x, w).as_dict()["implementation"] == before


def test_it_is_tuned_remembered_and_served() -> None:
    dlblas.register(OP, "mine", mine)
    x, w = arrays(31, 104)
    report = dlblas.tune(OP, (x, w), seconds=2, implementations=["mine"])
    assert report["winner"]["implementation"] == "mine", report
    assert dlblas.explain(OP, x, w).as_dict()["source"] == "store"
    assert row_of(dlblas.explain(OP, x, w), "mine")["measured_ms"] > 0
    measured = dlblas.counters()["measured"]
    hit = dlblas.get_op(OP, (x, w), implementations=["mine"])
    assert not hit.report["evaluated"] and dlblas.counters()["measured"] == measured


def test_get_op_measures_only_what_came_since() -> None:
    x, w = arrays(29, 72)
    dlblas.get_op(OP, (x, w), seconds=3)
    assert not dlblas.get_op(OP, (x, w)).report["evaluated"]
    dlblas.register(OP, "late", mine)
    again = dlblas.get_op(OP, (x, w), seconds=3).report
    assert again["evaluated"]
    assert not dlblas.get_op(OP, (x, w)).report["evaluated"]


def test_a_changed_source_makes_its_own_records_stale_alone() -> None:
    x, w = arrays(27, 88)
    dlblas.register(OP, "first", mine)
    dlblas.register(OP, "second", mine)
    dlblas.tune(OP, (x, w), seconds=2, implementations=["first", "second"])
    before = dlblas.explain(OP, x, w)
    assert all("measured_ms" in row_of(before, name) for name in ("first", "second"))

    def changed(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        y[...] = normalise(x, weight, eps, weight_offset) + 0

    dlblas.register(OP, "second", changed)
    after = dlblas.explain(OP, x, w)
    assert "measured_ms" in row_of(after, "first")
    assert "measured_ms" not in row_of(after, "second")
    dlblas.register(OP, "second", mine)  # as it was: its records serve again
    assert "measured_ms" in row_of(dlblas.explain(OP, x, w), "second")
    dlblas.register(OP, "second", mine, version="2")
    assert "measured_ms" not in row_of(dlblas.explain(OP, x, w), "second")


def wrong(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = normalise(x, weight, eps, weight_offset) * np.float32(1.01)


def nan(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = normalise(x, weight, eps, weight_offset)
    y[0, 0] = np.nan


def raising(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    raise ValueError("not today")


def lazy(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[1:] = normalise(x, weight, eps, weight_offset)[1:]


def outside(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = normalise(x, weight, eps, weight_offset)
    step = y.strides[0]
    past = np.lib.stride_tricks.as_strided(y, (len(y) + 1, y.shape[1]), (step, y.strides[1]))
    past[-1, :4] = 1  # behind the last row


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (wrong, "wrong_result"),
        (nan, "wrong_result"),
        (raising, "launch_error"),
        (lazy, "unwritten"),
        (outside, "out_of_bounds"),
    ],
)
def test_a_bad_one_never_wins(bad: Any, kind: str) -> None:
    x, w = arrays(26, 80, seed=len(kind))
    dlblas.register(OP, f"bad_{bad.__name__}", bad)
    report = dlblas.tune(OP, (x, w), seconds=2, force=True)
    assert report["winner"]["implementation"] != f"bad_{bad.__name__}"
    row = row_of(dlblas.explain(OP, x, w), f"bad_{bad.__name__}")
    assert row["failure"] == kind and not row["chosen"]
    y = dlblas.rms_norm(x, w)
    assert dlblas.verify(OP, (x, w), y).ok


def test_a_failure_of_a_call_says_what_was_raised_and_where() -> None:
    dlblas.register(OP, "raising", raising)
    x, w = arrays()
    with dlblas.pinned(OP, "raising"), pytest.raises(LaunchError) as caught:
        dlblas.rms_norm(x, w)
    text = str(caught.value)
    assert text.startswith("rms_norm: raising failed; expected 0, got ValueError: not today (")
    assert f"{__file__}:" in text and caught.value.argument == "raising"


def test_supports_refuses_with_its_reason() -> None:
    def even_rows(problem: dlblas.own.Problem) -> str | None:
        if problem.dtypes["x"] != "f32":
            return f"takes f32, and x is {problem.dtypes['x']}"
        return None if problem.C % 2 == 0 else f"needs an even C, and C = {problem.C} {{}}"

    dlblas.register(OP, "even", mine, supports=even_rows)
    x, w = arrays(4, 7)
    row = row_of(dlblas.explain(OP, x, w), "even")
    assert row["reason"] == "needs an even C, and C = 7 {}"
    half = row_of(dlblas.explain(OP, x.astype(np.float16), w.astype(np.float16)), "even")
    assert half["reason"] == "takes f32, and x is f16"
    with dlblas.pinned(OP, "even"), pytest.raises(UnsupportedError, match="needs an even C"):
        dlblas.rms_norm(x, w)
    assert row_of(dlblas.explain(OP, *arrays(4, 8)), "even")["supports"]


def test_supports_that_raises_or_gives_no_reason_is_a_no() -> None:
    x, w = arrays()
    dlblas.register(OP, "broken", mine, supports=lambda problem: problem.nothing)
    dlblas.register(OP, "silent", mine, supports=lambda problem: False)
    explained = dlblas.explain(OP, x, w)
    assert row_of(explained, "broken")["reason"] == "its supports() raised AttributeError: nothing"
    assert row_of(explained, "silent")["reason"] == "its supports() said no without a reason"


def test_what_a_function_does_not_take_is_refused_by_name() -> None:
    dlblas.register(OP, "mine", mine)
    x, w = arrays()
    with dlblas.pinned(OP, "mine"), pytest.raises(UnsupportedError) as caught:
        dlblas.rms_norm(x, w, cast_before_weight=True)
    assert "mine: no: takes no cast_before_weight" in str(caught.value)


def test_strided_half_and_in_place_tensors() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    seen: list[tuple[Any, Any]] = []

    def watching(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        seen.append((x.strides, x.dtype))
        assert not x.flags.writeable and y.flags.writeable
        y[...] = normalise(x, weight, eps, weight_offset)

    dlblas.register(OP, "watching", watching)
    x, w = arrays(9, 40)
    with dlblas.pinned(OP, "watching"):
        for view in (x[::2, 3:33], x[::-1], np.asfortranarray(x), x.astype(ml_dtypes.bfloat16)):
            weight = np.ascontiguousarray(w[: view.shape[1]]).astype(view.dtype)
            y = dlblas.rms_norm(view, weight)
            np.testing.assert_array_equal(y, normalise(view, weight, 1e-6, 0.0))
            assert seen[-1] == (view.strides, view.dtype)
        own = x.copy()
        dlblas.rms_norm_(own, w)
        np.testing.assert_array_equal(own, normalise(x, w, 1e-6, 0.0))


def test_a_space_is_searched_and_its_values_arrive() -> None:
    seen: set[tuple[int, str, bool, float]] = set()

    def tunable(
        x: Any, weight: Any, eps: float, weight_offset: float, y: Any, *,
        rows: int, order: str, fast: bool, share: float,
    ) -> None:  # fmt: skip
        seen.add((rows, order, fast, share))
        y[...] = normalise(x, weight, eps, weight_offset)

    space = {
        "rows": dlblas.spaces.PowerOfTwoSpace(4, 16),
        "order": ["up", "down"],
        "fast": [False, True],
        "share": dlblas.spaces.ChoiceSpace([0.5, 0.25]),
    }
    default = {"rows": 8, "order": "down", "fast": True, "share": 0.25}
    dlblas.register(
        OP, "tunable", tunable, space=space, default=default, where="rows > 4 or order == 'up'"
    )
    x, w = arrays(22, 56)
    row = row_of(dlblas.explain(OP, x, w), "tunable")
    assert row["config"] == "rows=8 order=down fast=1 share=0.25"
    report = dlblas.tune(OP, (x, w), seconds=4, implementations=["tunable"], strategy="exhaustive")
    assert len(seen) == 3 * 2 * 2 * 2 - 4 and (4, "down", False, 0.5) not in seen
    assert report["winner"]["implementation"] == "tunable"
    with dlblas.pinned(OP, "tunable", "rows=4 order=up fast=0 share=0.5"):
        seen.clear()
        dlblas.rms_norm(x, w)
        assert seen == {(4, "up", False, 0.5)}


def test_a_where_that_raises_is_asked_again_by_the_next_call() -> None:
    raising = False

    def where(block: int, C: int) -> bool:  # noqa: N803 - a letter: it is asked by calls
        if raising:
            raise MemoryError
        return block == 16

    def picky(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, block: int) -> None:
        y[...] = normalise(x, weight, eps, weight_offset)

    dlblas.register(OP, "picky", picky, space={"block": [8, 16]}, where=where)
    raising = True
    reason = "no configuration of its space is valid for this problem"
    assert row_of(dlblas.explain(OP, *arrays(5, 9)), "picky")["reason"] == reason
    raising = False
    assert row_of(dlblas.explain(OP, *arrays(5, 9)), "picky")["config"] == "block=16"


def test_where_may_name_letters() -> None:
    def blocked(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, block: int) -> None:
        y[...] = normalise(x, weight, eps, weight_offset)

    dlblas.register(OP, "blocked", blocked, space={"block": [16, 64]}, where="block <= C")
    config = row_of(dlblas.explain(OP, *arrays(4, 32)), "blocked")["config"]
    assert config == "block=16"
    with dlblas.pinned(OP, "blocked", "block=64"):
        dlblas.rms_norm(*arrays(4, 64))
        with pytest.raises(UnsupportedError, match="breaks the constraint"):
            dlblas.rms_norm(*arrays(4, 32))
    reason = row_of(dlblas.explain(OP, *arrays(4, 8)), "blocked")["reason"]
    assert reason == "no configuration of its space is valid for this problem"


def test_a_call_asks_few_configurations_of_a_large_space() -> None:
    asked: list[tuple[int, int]] = []

    def large(
        x: Any, weight: Any, eps: float, weight_offset: float, y: Any, i: int, j: int
    ) -> None:
        y[...] = normalise(x, weight, eps, weight_offset)

    def allowed(i: int, j: int, C: int) -> bool:  # noqa: N803
        asked.append((i, j))
        return C == 64 or i * j > 8000

    def told(columns: int) -> dict[str, Any]:
        asked.clear()
        return row_of(dlblas.explain(OP, *arrays(4, columns)), "large")

    space = {"i": list(range(1, 101)), "j": list(range(1, 101))}
    dlblas.register(OP, "large", large, space=space, where=allowed)
    assert told(64)["config"] == "i=1 j=1" and len(asked) == 1
    none = "none of the first 4096 configurations of its space is valid for this problem"
    assert told(32)["reason"] == none
    assert len(asked) == 1 + 4096 and asked[-1] == (41, 96)  # the default, then in order
    assert told(32)["reason"] == none and asked == []  # once a problem
    default = {"i": 90, "j": 100}
    dlblas.register(OP, "large", large, space=space, where=allowed, default=default)
    assert told(32)["config"] == "i=90 j=100"
    listed = [{"i": i, "j": j} for i, j in ((3, 4), (99, 99), (100, 100), (5, 6))]
    dlblas.register(OP, "large", large, space=listed, where=allowed)
    assert told(32)["config"] == "i=99 j=99" and len(asked) <= 3


def test_a_list_of_configurations_is_a_space() -> None:
    def listed(
        x: Any, weight: Any, eps: float, weight_offset: float, y: Any, a: int, b: int
    ) -> None:
        assert (a, b) in ((1, 2), (3, 4))
        y[...] = normalise(x, weight, eps, weight_offset)

    dlblas.register(OP, "listed", listed, space=[{"a": 3, "b": 4}, {"a": 1, "b": 2}])
    x, w = arrays(21, 48)
    assert row_of(dlblas.explain(OP, x, w), "listed")["config"] == "a=3 b=4"
    report = dlblas.tune(OP, (x, w), seconds=2, implementations=["listed"])
    assert report["winner"]["implementation"] == "listed"
    with dlblas.pinned(OP, "listed", "a=1 b=2"):
        dlblas.rms_norm(x, w)
    with pytest.raises(UnsupportedError), dlblas.pinned(OP, "listed", "a=1 b=4"):
        dlblas.rms_norm(x, w)


def test_registering_again_replaces_and_pins_follow_the_name() -> None:
    x, w = arrays()
    dlblas.register(OP, "mine", mine)
    with dlblas.pinned(OP, "mine"):
        right = dlblas.rms_norm(x, w)
        dlblas.register(OP, "mine", wrong)
        np.testing.assert_array_equal(dlblas.rms_norm(x, w), right * np.float32(1.01))
        dlblas.unregister(OP, "mine")
        with pytest.raises(UnsupportedError, match="is registered no more"):
            dlblas.rms_norm(x, w)
    assert dlblas.verify(OP, (x, w), dlblas.rms_norm(x, w)).ok


def test_deterministic_is_what_was_said() -> None:
    x, w = arrays()
    dlblas.register(OP, "plain", mine)
    dlblas.register(OP, "same", mine, deterministic=True)
    with dlblas.deterministic():
        explained = dlblas.explain(OP, x, w)
    assert row_of(explained, "same")["supports"]
    assert row_of(explained, "plain")["reason"].startswith("is not deterministic")


def test_the_harness_covers_it() -> None:
    from dlblas.harness import expand, load_registry, run_group

    def exact(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        mine(x.astype(np.float64), weight.astype(np.float64), eps, weight_offset, y)

    dlblas.register(OP, "mine", exact)
    dlblas.register(OP, "bad", wrong)
    registry = load_registry()
    cases = [c for c in expand(registry) if c.op == OP and c.dtype == "f32"]
    good = run_group(registry, cases, "mine", 1, most=25)
    assert {outcome.status for outcome in good} <= {"passed", "skipped", "mistrusted"}, [
        o for o in good if o.status == "failed"
    ]
    assert sum(outcome.status == "passed" for outcome in good) >= 20
    bad = run_group(registry, cases, "bad", 1, most=5)
    assert any(outcome.status == "failed" for outcome in bad)


def test_threads_call_register_and_unregister_at_once() -> None:
    x, w = arrays(64, 512)  # large enough that the interpreter's lock is given away
    right = normalise(x, w, 1e-6, 0.0)
    dlblas.register(OP, "mine", mine)
    errors: list[BaseException] = []

    def call() -> None:
        try:
            for _ in range(60):
                np.testing.assert_allclose(dlblas.rms_norm(x, w), right, rtol=2e-5, atol=2e-6)
        except BaseException as error:
            errors.append(error)

    def change() -> None:
        try:
            for i in range(30):
                dlblas.register(OP, f"other{i % 3}", mine)
                dlblas.explain(OP, x, w)
                dlblas.unregister(OP, f"other{i % 3}")
        except BaseException as error:
            errors.append(error)

    with dlblas.pinned(OP, "mine"):
        threads = [threading.Thread(target=call) for _ in range(4)]
        threads.append(threading.Thread(target=change))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert not errors and not any(thread.is_alive() for thread in threads)


def test_a_call_inside_a_call() -> None:
    def through(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        with dlblas.pinned(OP, "reference"):
            dlblas.rms_norm(x, weight, eps=eps, weight_offset=weight_offset, out=y)

    dlblas.register(OP, "through", through)
    x, w = arrays(70, 300)
    with dlblas.pinned(OP, "through"):
        y = dlblas.rms_norm(x, w)
    assert dlblas.verify(OP, (x, w), y).ok


def unknown(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, z: int) -> None: ...


def short(x: Any, weight: Any, eps: float, y: Any) -> None: ...


def no_result(x: Any, weight: Any, eps: float, weight_offset: float) -> None: ...


@pytest.mark.parametrize(
    ("change", "argument", "words"),
    [
        ({"name": "no name"}, "name", "is no name"),
        ({"name": "reference"}, "name", "is taken by a built-in implementation"),
        ({"fn": 7}, "fn", "has the wrong type"),
        ({"fn": unknown}, "fn", "takes an argument that is not there"),
        ({"fn": short}, "fn", "does not take weight_offset"),
        ({"fn": no_result}, "fn", "does not take y"),
        ({"devices": "tpu"}, "devices", "is unknown"),
        ({"devices": ()}, "devices", "is empty"),
        ({"devices": "cuda", "arrays": "numpy"}, "arrays", "does not fit the devices"),
        ({"arrays": "jax"}, "arrays", "is unknown"),
        ({"space": {"rows": [1, 2]}}, "fn", "does not take rows"),
        ({"space": {"x": [1, 2]}}, "space", "names a knob like an argument"),
        ({"space": 3}, "space", "has the wrong type"),
        ({"space": {"rows": []}}, "space", "gives rows a wrong number of values"),
        ({"space": {"rows": dlblas.spaces.RangeSpace(0, 1)}}, "space", "gives rows a range"),
        ({"default": {"rows": 1}}, "default", "names other knobs than space"),
        ({"space": {"rows": [2**70]}}, "space['rows']", "has a value beyond 64 bits"),
        ({"space": {"rows": [None]}}, "space['rows']", "has the wrong type"),
        ({"space": {"rows": [[1]]}}, "space['rows']", "has the wrong type"),
        ({"space": [{"rows": None}]}, "space['rows']", "has the wrong type"),
        ({"space": {"rows": ["\ud800"]}}, "space['rows']", "is not valid Unicode"),
        ({"space": {"\ud800": [1]}}, "space", "is not valid Unicode"),
        ({"space": {5: [1]}}, "space", "has the wrong type"),
        ({"space": {"rows": [1]}, "where": lambda rows: 1 / 0}, "where", "raised"),
        ({"space": {"rows": [1]}, "where": max}, "where", "does not tell its parameters"),
        ({"where": 5}, "where", "has the wrong type"),
        ({"default": 5}, "default", "has the wrong type"),
        ({"supports": 5}, "supports", "has the wrong type"),
        ({"devices": 5}, "devices", "has the wrong type"),
        ({"devices": [["cpu"]]}, "devices", "is unknown"),
        ({"arch": 2**70}, "arch", "is no compute capability"),
        ({"op": 5}, "op", "has the wrong type"),
        ({"op": "\ud800"}, "op", "is not valid Unicode"),
        ({"fn": "__global__ void f() {} //\ud800", "grid": "T"}, "fn", "is not valid Unicode"),
        ({"fn": "__global__ void f() {}", "grid": "\ud800"}, "grid", "is not valid Unicode"),
        ({"fn": "", "grid": "T", "entry": 5}, "entry", "has the wrong type"),
        ({"grid": "T"}, "grid", "is for kernels"),
        ({"fn": "extern", "devices": "cpu"}, "devices", "does not fit CUDA text"),
        ({"fn": "__global__ void f() {}"}, "grid", "is missing"),
        ({"fn": "int x;", "grid": "T"}, "entry", "is not clear"),
        ({"fn": "__global__ void f() {}", "grid": "T +"}, "grid", "is malformed"),
        ({"fn": "__global__ void f() {}", "grid": "Q"}, "grid", "is malformed"),
    ],
)
def test_errors_are_typed_and_name_the_argument(
    change: dict[str, Any], argument: str, words: str
) -> None:
    given = {"op": OP, "name": "mine", "fn": mine, **change}
    before = dlblas.info()["operators"]
    with pytest.raises(ArgumentError) as caught:
        dlblas.register(**given)
    assert dlblas.info()["operators"] == before
    assert caught.value.argument == argument, str(caught.value)
    assert words in str(caught.value) and "expected" in str(caught.value)


def test_truth_values_of_numpy_are_knobs() -> None:
    def knobs(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, k: Any) -> None: ...

    space = {"k": [np.bool_(True), np.float32(1.5), "a", 2]}
    dlblas.register(OP, "knobs", knobs, space=space, where=lambda k: k != 2)
    row = next(r for r in dlblas.info()["operators"] if r["name"] == OP)
    (made,) = (i for i in row["implementations"] if i["name"] == "knobs")
    assert made["knobs"][0]["values"] == ["True", "1.5", "a", "2"]


def test_an_unknown_operator_and_an_unknown_name() -> None:
    with pytest.raises(UnknownOperatorError):
        dlblas.register("rms_norms", "mine", mine)
    with pytest.raises(ArgumentError, match="is not a registered one"):
        dlblas.unregister(OP, "cpu_avx512")


def test_closures_are_local_and_modules_are_named() -> None:
    def local(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        y[...] = normalise(x, weight, eps, weight_offset)

    dlblas.register(OP, "local", local)
    row = next(r for r in dlblas.info()["operators"] if r["name"] == OP)
    flags = {i["name"]: (i["user"], i["local"]) for i in row["implementations"]}
    assert flags["local"] == (True, True) and flags["reference"] == (False, False)
    assert __name__ not in dlblas.own.modules()


def test_a_torch_function() -> None:
    torch = pytest.importorskip("torch")

    def by_torch(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        assert isinstance(x, torch.Tensor)
        f = x.float()
        f = f * torch.rsqrt((f * f).mean(-1, keepdim=True) + eps)
        y.copy_(f * (weight.float() + weight_offset))

    dlblas.register(OP, "by_torch", by_torch, arrays="torch")
    x = torch.randn(12, 64, dtype=torch.bfloat16)
    w = torch.randn(64, dtype=torch.bfloat16)
    expected = torch.nn.functional.rms_norm(x.float(), (64,), w.float(), 1e-6).bfloat16()
    with dlblas.pinned(OP, "by_torch"):
        torch.testing.assert_close(dlblas.rms_norm(x, w), expected, rtol=0.02, atol=0.02)
        torch.testing.assert_close(
            torch.ops.dlblas.rms_norm(x.t().contiguous().t(), w), expected, rtol=0.02, atol=0.02
        )
        y = dlblas.rms_norm(*arrays())  # NumPy callers as well
        assert isinstance(y, np.ndarray)
    report = dlblas.tune(OP, (x, w), seconds=2, implementations=["by_torch"])
    assert report["winner"]["implementation"] == "by_torch"


def _scaled(by: Any) -> Any:
    def scaled(x: Any, y: Any, more: Any = None) -> None:
        y[...] = x * by

    return scaled


class _Scaled:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: Any, y: Any) -> None:
        y[...] = x * self.by


@pytest.mark.parametrize(
    "make",
    [
        _scaled,
        lambda by: functools.partial(_scaled(1), more=by),
        lambda by: functools.wraps(_scaled(by))(_scaled(1)),
        lambda by: _scaled(np.arange(9999) + by),
        _Scaled,
    ],
    ids=["closure", "partial", "wrapper", "array", "object"],
)
def test_what_a_function_holds_is_part_of_its_hash(make: Any) -> None:
    digest = [_source.digest(_source.text_of(make(by))) for by in (2, 2, 3)]
    assert digest[0] == digest[1] != digest[2]


def test_what_has_no_lasting_text_is_of_this_process() -> None:
    held = "(lambda q: lambda x: q)(object())"
    code = f"from dlblas.own import _source as s; print(s.digest(s.text_of({held})))"
    told = {subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)}
    assert len(told) == 2
