"""What tests must know of linear_rope. Read next: tests/rooms.py."""

from __future__ import annotations

import random

import numpy as np
from batch_parts import Cut, Given, some_of


def rows_of_tables(given: Given, pick: random.Random) -> Cut | None:
    """Rows of x; row t of the whole takes row t mod S of the tables."""
    rows = len(given["x"])
    if given["x"].ndim != 2 or rows < 2:
        return None
    kept = some_of(rows, pick)
    taken = np.arange(kept.start, kept.stop) % max(1, len(given["cos"]))
    tables = {name: given[name][taken] for name in ("cos", "sin")}
    return Cut({"T": kept}, tables, f"rows {kept}")


TESTS = {"linear_rope": {"parts": rows_of_tables}}
