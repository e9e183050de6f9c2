"""A search draws inputs that the operator accepts and that no wrong candidate can exploit:
own_drawn_checks.py, in its own process, since a registered operator stays for the process.

Read next: own_drawn_checks.py, src/tuner/filler.cpp.
"""

from __future__ import annotations

import inspect
import json
import math
from typing import Any

import dlblas
import numpy as np
import pytest
from depth import some
from dlblas.harness import Case, load_registry
from dlblas.harness.call import Call
from test_own_operator import CHECKS, run

REGISTRY = load_registry()


@pytest.mark.attack("candidates that are right of what searches drew alone")
def test_what_a_search_draws_gives_no_wrong_one_away() -> None:
    assert " passed" in run(checks=CHECKS.with_name("own_drawn_checks.py"))


def size_of(row: dict[str, Any]) -> int:
    dims = row["dims"].values()
    return math.prod(math.prod(n) if isinstance(n, list) else n for n in dims)


def gives_ids(op: str) -> bool:
    dtypes = [dtype for r in REGISTRY.operators[op]["results"] for dtype in r["dtypes"]]
    return bool(dtypes) and {*dtypes} <= {"i32", "i64"}


def cases() -> list[tuple[str, dict[str, Any]]]:
    """For each operator and set of arguments, the largest case that runs quickly."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for row in sorted(REGISTRY.rows, key=size_of):
        least = 1 if gives_ids(row["op"]) else 0  # of one element there is one id
        if "test" in row["use"] and least < size_of(row) < 1e6:
            found[json.dumps([row["op"], row["args"]], sort_keys=True)] = (row["op"], row)
    return [found[key] for key in sorted(found)]


@pytest.mark.parametrize(
    ("op", "row"),
    [pytest.param(*c, id=f"{c[0]}-{c[1]['name']}") for c in some(cases(), 60, "drawn")],
)
def test_a_reference_has_numbers_for_what_is_drawn(op: str, row: dict[str, Any]) -> None:
    """The built-in as a user's candidate: it is judged, and its results are not mostly NaN."""
    facts = REGISTRY.operators[op]
    names = [p["name"] for p in facts["forms"][0]["params"]]
    results = [r["name"] for r in facts["results"]]
    nans: list[float] = []

    def probe(**given: Any) -> None:
        got = getattr(dlblas, op)(**{n: given[n] for n in names})
        for name, array in zip(results, got if isinstance(got, tuple) else (got,), strict=False):
            given[name][...] = array
            with np.errstate(invalid="ignore"):
                nans.append(float(np.isnan(np.asarray(array).astype(np.float64)).mean()))

    usual = {
        t["name"] for t in facts["tensors"] if t["usual"]
    }  # declared with a default: absent, too
    kinds = inspect.Parameter
    probe.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        kinds(n, kinds.KEYWORD_ONLY, default=None if n in usual else kinds.empty)
        for n in names + results
    ])  # fmt: skip
    case = Case(op, row["name"], row["dims"], row["dtypes"][0], "contiguous", "normal", row["args"])
    given = {k: v for k, v in Call(REGISTRY, case, 1).before().items() if v is not None}
    dlblas.register(op, "probe", probe)
    try:
        report = dlblas.tune(
            op, (), kwargs=given, seconds=5, max_evaluations=1, force=True, worker=False,
            implementations=["probe"],
        )  # fmt: skip
    finally:
        dlblas.unregister(op, "probe")
    (found,) = [e for e in report["evaluated"] if e["implementation"] == "probe"]
    assert "failure" not in found, found
    assert not nans or min(nans) < 0.5
