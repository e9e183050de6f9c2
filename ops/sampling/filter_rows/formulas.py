"""filter_rows in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/sampling/README.md, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .sampling_formulas import kept  # ops/sampling/formulas.py, as it is staged


def filter_rows(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    x = tensors["x"]
    probs, renorm = scalars["probs"], scalars["renorm"]
    rows = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])

    def each(name: str, absent: float) -> Any:
        given = tensors.get(name)
        return np.full(len(rows), absent) if given is None else np.asarray(given).reshape(-1)

    y = np.full(rows.shape, np.nan)
    for t, (row, k, top_p, min_p) in enumerate(
        zip(rows, each("top_k", 0), each("top_p", 1), each("min_p", 0), strict=True)
    ):
        bad = np.isnan(row).any() or (row == np.inf).any() or (probs and (row < 0).any())
        if bad or row.size == 0 or row.max() == -np.inf or (probs and row.max() == 0):
            continue
        p = row / row.max() if probs else np.exp(row - row.max())
        stays = kept(row, p, int(k), top_p, min_p)
        if renorm:
            y[t] = np.where(stays, p, 0) / np.where(stays, p, 0).sum()
        else:
            y[t] = np.where(stays, row, 0 if probs else -np.inf)
    return (y.reshape(x.shape),)


FORMULAS = {"filter_rows": filter_rows}
