"""Spaces of users' own implementations: searched, refused point by point, listed, large.

Read next: docs/own.md, python/dlblas/own/_space.py.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import dlblas
import pytest
from dlblas.errors import ArgumentError, UnsupportedError
from own_shared import OP, arrays, clean, normalise, row_of  # noqa: F401 (clean: a fixture)


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
    report = dlblas.tune(OP, (x, w), seconds=10, implementations=["tunable"], strategy="exhaustive")
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
            raise MemoryError("full")
        return block == 16

    def picky(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, block: int) -> None:
        y[...] = normalise(x, weight, eps, weight_offset)

    dlblas.register(OP, "picky", picky, space={"block": [8, 16]}, where=where)
    raising = True
    reason = "no configuration of its space is valid for this problem"
    told = row_of(dlblas.explain(OP, *arrays(5, 9)), "picky")["reason"]
    assert told == f"{reason}: where raised MemoryError: full"
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
    assert told(32)["reason"] == none and asked == []  # once per problem
    default = {"i": 90, "j": 100}
    dlblas.register(OP, "large", large, space=space, where=allowed, default=default)
    assert told(32)["config"] == "i=90 j=100"
    listed = [{"i": i, "j": j} for i, j in ((3, 4), (99, 99), (100, 100), (5, 6))]
    dlblas.register(OP, "large", large, space=listed, where=allowed)
    assert told(32)["config"] == "i=99 j=99" and len(asked) <= 3


def test_where_walks_through_no_more_than_it_says() -> None:
    def huge(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, **knobs: int) -> None:
        y[...] = normalise(x, weight, eps, weight_offset)

    asked: list[int] = []

    def where(k0: int) -> bool:
        asked.append(k0)
        return k0 < 3

    ten = {f"k{i}": [1, 2, 4, 8, 16, 32, 64, 128] for i in range(10)}
    with pytest.raises(ArgumentError, match="at most 65536 combinations, got 1073741824") as caught:
        dlblas.register(OP, "huge", huge, space=ten, where=where)
    assert caught.value.argument == "where" and "list the configurations" in str(caught.value)
    assert asked == []
    dlblas.register(OP, "huge", huge, space={"k0": list(range(256)), "k1": [*range(256)]},
                    where=where)  # fmt: skip
    assert len(asked) == 65536
    with pytest.raises(ArgumentError, match="wrong number of values"):
        dlblas.register(OP, "huge", huge, space={"k0": itertools.count()})


@pytest.mark.parametrize("values", [[1, "1"], [True, "True"], [0.5, "0.5", 2]])
def test_values_that_read_alike_are_refused(values: list[Any]) -> None:
    def alike(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, k: Any) -> None: ...

    words = f"{values[0]!r} and {values[1]!r}"
    for space in ({"k": values}, [{"k": value} for value in values]):
        with pytest.raises(ArgumentError, match="has values that read alike") as caught:
            dlblas.register(OP, "alike", alike, space=space)
        assert caught.value.argument == "space['k']" and words in str(caught.value)


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


def test_a_query_about_itself_is_answered_soon() -> None:
    x, w = arrays(500, 48)

    def asks(*_: Any) -> bool:
        return bool(str(dlblas.explain(OP, x, w)))

    def mine(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, a: int = 1) -> None:
        y[...] = normalise(x, weight, eps, weight_offset)

    begin = time.perf_counter()
    dlblas.register(OP, "asks", mine, supports=lambda problem: asks() and None)
    assert dlblas.rms_norm(x, w).shape == (500, 48)
    dlblas.register(OP, "asks", mine, space={"a": [1, 2]}, where=lambda a, C: asks())  # noqa: N803
    assert dlblas.rms_norm(x, w).shape == (500, 48)
    assert time.perf_counter() - begin < 20
