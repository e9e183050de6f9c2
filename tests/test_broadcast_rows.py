"""Calls whose rows are one broadcast row can be searched like others: the operator accepts what the
tuner allocates for them.

Read next: src/tuner/inputs.cpp (make_shapes).
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest


def one_row(values: Any, rows: int) -> Any:
    return np.broadcast_to(values, (rows, values.shape[-1]))


def random(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def codes(*shape: int) -> Any:
    return np.random.default_rng(3).integers(-100, 100, shape).astype(np.int8)


CALLS = {
    "scaled_mm_channel": lambda: (
        codes(24, 64), codes(64, 48), one_row(np.float32([[1.5]]), 24), np.float32([0.25]),
    ),
    "scaled_mm_block": lambda: (
        codes(24, 256), codes(256, 48), one_row(np.float32([[1.5, 2]]), 24), np.ones((2, 1), "f"),
    ),
    "matmul": lambda: (one_row(random(1, 64), 24), random(64, 48)),
    "gated_linear": lambda: (one_row(random(1, 64), 24), random(48, 64), random(48, 64)),
    "norm_linear": lambda: (one_row(random(1, 64), 24), random(64), random(48, 64)),
    "rms_norm": lambda: (one_row(random(1, 64), 24), random(64)),
    "softmax": lambda: (one_row(random(1, 64), 24),),
}  # fmt: skip


@pytest.mark.parametrize("op", CALLS)
def test_a_search_of_broadcast_rows_has_no_failure(
    op: str, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("DLBLAS_CACHE", str(tmp_path))
    report = dlblas.tune(op, CALLS[op](), seconds=0.1, progress=False)
    failed = [row for row in report.candidates if row["failed"]]
    assert report.candidates and not failed, failed
