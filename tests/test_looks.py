"""The extra checks of a search's winner ("looks") refuse no built-in implementation: partly changed
values, other scalars, other addresses and large values (src/tuner/looks.cpp).

Read next: test_own_kept.py, docs/tuning.md "When a result is right".
"""

from __future__ import annotations

import math
import os

import dlblas
import numpy as np
import pytest
from depth import some
from dlblas.harness import expand, load_registry
from dlblas.harness.call import Call


def pairs() -> list[tuple[str, str]]:
    registry = load_registry()
    return sorted({(c.op, c.dtype) for c in expand(registry) if c.values == "normal"})


def cases() -> list[tuple[str, str]]:
    return some(pairs(), 24, "looks")


def search_alone(op: str, dtype: str, backend: str, count: int) -> None:
    """The winner of a search passes all looks or is dropped, so each implementation is searched
    alone."""
    registry = load_registry()
    small = [
        c
        for c in expand(registry)
        if (c.op, c.dtype, c.values, c.layout) == (op, dtype, "normal", "contiguous")
        and 0 < math.prod(math.prod(v) if isinstance(v, list) else v for v in c.dims.values()) < 1e7
    ]
    searched = 0
    for case in some(small, count, f"{op} {dtype}"):
        call = Call(registry, case, 1)
        if not any(tensor.array.size for tensor in call.outcome()):
            continue
        given = {
            name: dlblas.Spec(v.shape, dtype=str(v.dtype), device=backend)
            if isinstance(v, np.ndarray) else v
            for name, v in call.before().items()
        }  # fmt: skip
        for row in registry.implementations(op):
            if row["backend"] != backend or row["oracle"]:
                continue
            try:
                report = dlblas.tune(
                    op, (), kwargs=given, seconds=5, max_evaluations=1, force=True, worker=False,
                    implementations=[row["name"]], seed=int(os.environ["DLBLAS_TEST_SEED"]),
                )  # fmt: skip
            except dlblas.errors.UnsupportedError:
                continue
            except dlblas.errors.ArgumentError as error:  # it has no configuration for this
                assert "space leaves nothing to measure" in str(error)
                continue
            failed = [e for e in report["evaluated"] if "failure" in e]
            assert not failed, (case, failed)
            searched += 1
    assert searched or not small or backend == "cuda", f"{op}, {dtype}: nothing was searched"


@pytest.mark.parametrize(("op", "dtype"), cases())
def test_no_built_in_is_refused_by_a_look(op: str, dtype: str) -> None:
    search_alone(op, dtype, "cpu", 2)


@pytest.mark.gpu
@pytest.mark.parametrize(("op", "dtype"), pairs())
def test_none_of_a_gpu_is(op: str, dtype: str) -> None:
    search_alone(op, dtype, "cuda", 1)
