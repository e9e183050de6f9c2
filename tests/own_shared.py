"""What the tests of users' own implementations share: a right implementation, its arrays, and a
fixture that unregisters whatever a test registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import _native

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
        row = _native.operator_row(OP)
        return {i["name"] for i in row["implementations"] if i["user"]}

    before = own()
    yield
    for name in own() - before:
        dlblas.unregister(OP, name)


def row_of(explanation: dlblas.Explanation, name: str) -> dict[str, Any]:
    rows = explanation.as_dict()["candidates"]
    return next(row for row in rows if row["implementation"] == name)
