"""What tests must know of quantised values. Read next: tests/rooms.py."""

from __future__ import annotations

import random

from batch_parts import Cut, Given, some_of


def blocks_of_rows(given: Given, pick: random.Random) -> Cut | None:
    blocks = -(-len(given["x"]) // 128)
    if blocks < 2:
        return None
    kept = some_of(blocks, pick)
    rows = slice(128 * kept.start, min(128 * kept.stop, len(given["x"])))
    return Cut({"N": rows, "N/128": kept}, {}, f"rows {rows}")


# A code of 4 or 8 bits times a power of 2 is exact in bf16.
SHORT = {"never": {"y": ("bf16_rounded",)}}
OF_ALL_ROWS = "a scale is over all rows"

# exact: they divide by an exact maximum and round, so their implementations agree bit by bit.
TESTS = {
    "dequantize_mxfp4": SHORT,
    "dequantize_mxfp8": SHORT,
    "quantize_group": {"exact": True},
    "quantize_block128": {"exact": True, "parts": blocks_of_rows},
    "quantize_channel": {"exact": True, "parts": OF_ALL_ROWS},
    "quantize_tensor": {"exact": True, "parts": OF_ALL_ROWS},
}
