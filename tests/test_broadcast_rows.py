"""Calls whose rows are one broadcast row can be searched like others: the operator accepts what the
tuner allocates for them.

Read next: src/tuner/inputs.cpp (make_shapes).
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from test_same_bits import OPERATORS, Problem


def broadcast(problem: Problem) -> list[str]:
    """Inputs whose rows can all be the first one: numbers, not places, that are only read."""
    return [
        name
        for name, array in problem.rowed.items()
        if array.ndim > 1 and array.dtype.kind not in "iu" and name not in problem.written
    ]


@pytest.mark.parametrize("op", OPERATORS)
def test_a_search_of_broadcast_rows_has_no_failure(
    op: str, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("DLBLAS_CACHE", str(tmp_path))
    problem = Problem(op, 3, "f32")
    for name in broadcast(problem):
        rows = np.broadcast_to(problem.rowed[name][:1], problem.rowed[name].shape)
        given = {**problem.rowed, **problem.shared, name: rows}
        report = dlblas.tune(op, (), kwargs=given, seconds=0.1, progress=False)
        failed = [row for row in report.candidates if row["failed"]]
        assert report.candidates and not failed, (name, failed)
