"""How deep a test run goes, from the environment: DLBLAS_TEST_DEPTH and DLBLAS_TEST_SEED.

Used by: conftest.py and the tests that sample from more cases than a run has time for. Read next:
docs/testing.md ("How deep").
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping
from typing import TypeVar

from dlblas.harness.groups import Depth

T = TypeVar("T")


def depth_of(variables: Mapping[str, str] = os.environ) -> Depth:
    """conftest.py sets a random seed where none is given. Raises ValueError."""
    depth, seed = variables.get("DLBLAS_TEST_DEPTH", "sample"), variables["DLBLAS_TEST_SEED"]
    if depth not in ("sample", "full"):
        raise ValueError(f"DLBLAS_TEST_DEPTH is unknown; expected sample or full, got {depth}")
    if not seed.isdecimal():
        raise ValueError(f"DLBLAS_TEST_SEED is no number; expected 0, 1, 2 …, got {seed}")
    return Depth(depth == "full", int(seed))


def some(choices: Iterable[T], count: int, of: str = "") -> list[T]:
    """All choices at full depth; otherwise ``count`` of them in their order, drawn by the seed and
    ``of``."""
    depth, every = depth_of(), list(choices)
    if depth.full or len(every) <= count:
        return every
    draw = random.Random(f"{of} {depth.seed}")
    return [every[place] for place in sorted(draw.sample(range(len(every)), count))]


def words_of(depth: Depth) -> str:
    """What a run prints at its start and end."""
    drawn = "everything" if depth.full else "a sample; DLBLAS_TEST_DEPTH=full for everything"
    return f"seed {depth.seed} ({drawn}; DLBLAS_TEST_SEED={depth.seed} draws the same)"
