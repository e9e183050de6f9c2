"""What tests must know of grouped_gemm_k. Read next: tests/rooms.py."""

from __future__ import annotations

import random

import numpy as np
from batch_parts import Cut, Given, some_of


def groups_of_depth(given: Given, pick: random.Random) -> Cut | None:
    """Some groups of the rows that are summed over."""
    offsets = np.minimum(given["offsets"], len(given["a"]))
    if len(offsets) < 3:
        return None
    kept = some_of(len(offsets) - 1, pick)
    first, last = offsets[kept.start], offsets[kept.stop]
    part = offsets[kept.start : kept.stop + 1] - first
    return Cut({"M": slice(first, last), "E": kept}, {"offsets": part}, f"groups {kept}")


ALIKE = ("cuda_mma", "cuda_wgmma")  # as in ops/gemm/tests.py

TESTS = {"grouped_gemm_k": {"faults": "normal", "parts": groups_of_depth, "alike": ALIKE}}
