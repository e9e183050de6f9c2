"""What tests must know of 4-bit weights. Read next: tests/rooms.py."""

from __future__ import annotations

import random

from batch_parts import Cut, Given, some_of


def groups_of_weights(given: Given, pick: random.Random) -> Cut | None:
    """Some groups of rows that share a scale."""
    groups = len(given["scales"])
    each = len(given["qweight"]) // max(1, groups)
    if groups < 2 or each * groups != len(given["qweight"]):
        return None
    kept = some_of(groups, pick)
    rows = slice(each * kept.start, each * kept.stop)
    more = {"R": kept, "R*G": rows, "Q": rows, "8Q//group": kept}
    return Cut({**more, "8Q": slice(8 * rows.start, 8 * rows.stop)}, {}, f"groups {kept}")


TESTS = {
    "awq_dequantize": {"parts": groups_of_weights},
    "gptq_dequantize": {"parts": groups_of_weights},
}
