"""How deep a run of the tests goes, out of the environment: DLBLAS_TEST_DEPTH and DLBLAS_TEST_SEED.

Used by: conftest.py, test_cases.py. Read next: docs/testing.md ("How deep").
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from dlblas.harness.groups import Depth


def depth_of(variables: Mapping[str, str] = os.environ) -> Depth:
    """conftest.py draws a seed where none is given. Raises ValueError."""
    depth, seed = variables.get("DLBLAS_TEST_DEPTH", "sample"), variables["DLBLAS_TEST_SEED"]
    if depth not in ("sample", "full"):
        raise ValueError(f"DLBLAS_TEST_DEPTH is unknown; expected sample or full, got {depth}")
    if not seed.isdecimal():
        raise ValueError(f"DLBLAS_TEST_SEED is no number; expected 0, 1, 2 …, got {seed}")
    return Depth(depth == "full", int(seed))


def words_of(depth: Depth) -> str:
    """What a run prints at its start and its end."""
    drawn = "everything" if depth.full else "a sample; DLBLAS_TEST_DEPTH=full for everything"
    return f"seed {depth.seed} ({drawn}; DLBLAS_TEST_SEED={depth.seed} draws the same)"
