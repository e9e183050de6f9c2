"""Shared by the formulas of filter_rows and sample_rows, in NumPy. Written from the contract, not
from the C++. Read next: filter_rows/formulas.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def kept(x: Any, p: Any, k: int, top_p: float, min_p: float) -> Any:
    """A mask of the elements of a row that are kept."""
    stays = np.ones(x.shape, bool)
    if 0 < k < len(x):
        stays = x >= np.sort(x)[::-1][k - 1]
    if top_p < 1:
        order = np.argsort(-x, kind="stable")
        mass = np.where(stays, p, 0)[order]
        above = np.concatenate([[0], np.cumsum(mass)[:-1]])
        first = np.searchsorted(-x[order], -x[order], side="left")  # equal ones go together
        fits = np.empty(x.shape, bool)
        fits[order] = above[first] < max(top_p, 0) * mass.sum()
        stays &= fits | (x == x.max())
    if min_p > 0:
        stays &= (p >= min(min_p, 1) * p.max()) | (x == x.max())
    return stays
