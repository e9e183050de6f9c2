"""What a search looks at its winner with refuses no built-in implementation: a part of the values
others, other scalars, other addresses and large values (src/tuner/looks.cpp).

Read next: test_own_kept.py, docs/tuning.md "When a result is right".
"""

from __future__ import annotations

import math
import os

import dlblas
import pytest
from depth import some
from dlblas.harness import expand, load_registry
from dlblas.harness.call import Call


def cases() -> list[tuple[str, str]]:
    registry = load_registry()
    of_cpu = {(c.op, c.dtype) for c in expand(registry) if c.values == "normal"}
    return some(sorted(of_cpu), 24, "looks")


@pytest.mark.parametrize(("op", "dtype"), cases())
def test_no_built_in_is_refused_by_a_look(op: str, dtype: str) -> None:
    """The winner of a search passes all looks, or is dropped: so each is searched for alone."""
    registry = load_registry()
    small = [
        c
        for c in expand(registry)
        if (c.op, c.dtype, c.values, c.layout) == (op, dtype, "normal", "contiguous")
        and 0 < math.prod(math.prod(v) if isinstance(v, list) else v for v in c.dims.values()) < 1e7
    ]
    searched = 0
    for case in some(small, 2, f"{op} {dtype}"):
        call = Call(registry, case, 1)
        if not any(tensor.array.size for tensor in call.outcome()):
            continue
        for row in registry.implementations(op):
            if row["backend"] == "cuda" or row["oracle"]:
                continue
            try:
                report = dlblas.tune(
                    op, (), kwargs=call.before(), seconds=2, max_evaluations=1, force=True,
                    worker=False, implementations=[row["name"]],
                    seed=int(os.environ["DLBLAS_TEST_SEED"]),
                )  # fmt: skip
            except dlblas.errors.UnsupportedError:
                continue
            except dlblas.errors.ArgumentError as error:  # it has no configuration for this
                assert "space leaves nothing to measure" in str(error)
                continue
            failed = [e for e in report["evaluated"] if "failure" in e]
            assert not failed, (case, failed)
            searched += 1
    assert searched or not small, f"{op}, {dtype}: nothing was searched"
