"""The module that tests of `--import` import: a user's operator and two implementations. Registered
at import, so that any process can repeat it. Read next: test_own_operator.py."""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np


def reference(x: Any, scale: Any, power: float) -> Any:
    return np.abs(x) ** power * scale


dlblas.register_operator(
    "own_power(x: f[*T, C], scale: like(x)[C], power: float = 2.0) -> y: like(x)[*T, C] "
    "where T: bucket(tokens)",
    reference,
    formula="y = |x|^power · scale",
)


@dlblas.register("own_power", "numpy_whole")
def numpy_whole(x: Any, scale: Any, power: float, y: Any) -> None:
    y[...] = (np.abs(x.astype(np.float32)) ** power * scale.astype(np.float32)).astype(y.dtype)


@dlblas.register("own_power", "numpy_blocks", space={"rows": [4, 64], "order": ["up", "down"]})
def numpy_blocks(x: Any, scale: Any, power: float, y: Any, rows: int, order: str) -> None:
    x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    starts = range(0, len(x), rows)
    for i in starts if order == "up" else reversed(starts):
        part = slice(i, i + rows)
        y[part] = (np.abs(x[part].astype(np.float32)) ** power * scale.astype(np.float32)).astype(
            y.dtype
        )
