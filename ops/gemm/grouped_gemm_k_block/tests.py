"""What tests must know of grouped_gemm_k_block. Read next: tests/rooms.py."""

from __future__ import annotations

import random

import numpy as np
from batch_parts import Cut, Given, some_of


def groups_of_blocks(given: Given, pick: random.Random) -> Cut | None:
    """Some groups of the rows that are summed over, from the start of the block of 128 rows that
    has the first group's first row."""
    offsets = np.minimum(given["offsets"], len(given["a"]))
    if len(offsets) < 3:
        return None
    kept = some_of(len(offsets) - 1, pick)
    first, last = int(offsets[kept.start]) // 128, int(offsets[kept.stop])
    part = offsets[kept.start : kept.stop + 1] - 128 * first
    rows, blocks = slice(128 * first, last), slice(first, -(-last // 128))
    slices = {"M": rows, "M/128": blocks, "E": kept}
    return Cut(slices, {"offsets": part.astype(offsets.dtype)}, f"groups {kept}")


# Of four sums of 2^24 products of codes, the largest was 0.4 of their deviation.
TESTS = {
    "grouped_gemm_k_block": {
        "faults": "normal",
        "hidden": {"f32": 2.5},
        "parts": groups_of_blocks,
    }
}
