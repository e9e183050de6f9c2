"""What tests must know of attention. Read next: tests/rooms.py."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from batch_parts import Cut, Given, sequences, some_of


def last_queries(given: Given, pick: random.Random) -> Cut | None:
    """The last queries of dense attention: the causal diagonal ends at the last query, so these
    still see the same keys."""
    rows = given["q"].shape[1]
    if rows < 2:
        return None
    kept = some_of(rows, pick)
    kept = slice(rows - (kept.stop - kept.start), rows)
    return Cut({"S": kept, "1|S": kept}, {}, f"queries {kept}")


def table_columns(given: Given, lengths: Any, page: int) -> dict[str, slice]:
    """A batch's page table is as wide as its longest sequence needs."""
    longest = int(-(-lengths.max(initial=0) // max(1, page)))
    return {"W": slice(0, max(1, min(longest, given["page_table"].shape[1])))}


def paged_sequences(given: Given, pick: random.Random) -> Cut | None:
    """Some sequences of a paged cache, or the last new tokens of one."""
    lengths = given["seq_lens"]
    number, rows = len(lengths), len(given["q"])
    starts = given.get("cu_seqlens_q", np.arange(number + 1, dtype=np.int32))
    starts = np.minimum(starts, rows)
    if number < 1 or (number == 1 and starts[1] - starts[0] < 2):
        return None
    kept = some_of(number, pick) if number > 1 else slice(0, 1)
    part = starts[kept.start : kept.stop + 1].copy()
    if kept.stop == kept.start + 1 and part[1] - part[0] > 1 and "cu_seqlens_q" in given:
        part[0] += pick.randrange(part[1] - part[0])
    slices = {"T": slice(part[0], part[-1]), "B": kept, "1|B": kept}
    instead = {}
    if "cu_seqlens_q" in given:
        instead["cu_seqlens_q"] = part - part[0]
    if "indptr" in given:  # where pages begin, in rows that stay as they are
        instead["indptr"] = given["indptr"][kept.start : kept.stop + 1]
    else:
        slices |= table_columns(given, lengths[kept], given["k_cache"].shape[1])
    return Cut(slices, instead, f"sequences {kept}, tokens {slices['T']}")


def latent_tokens(given: Given, pick: random.Random) -> Cut | None:
    rows = len(given["q_nope"])
    if rows < 2:
        return None
    kept = some_of(rows, pick)
    columns = table_columns(given, given["seq_lens"][kept], given["ckv_cache"].shape[1])
    return Cut({"T": kept, "1|T": kept, **columns}, {}, f"tokens {kept}")


PACKED = sequences("N", T="cu_seqlens_q", U="cu_seqlens_k")

# hidden: rounding a score of size |s| moves every weight of its row by |s| roundings, and a sum
# over D = 4096 has an error that grows with its root, which the sizes of the terms do not show (1.5
# times, for 8-bit codes, whichever dtype a case names); in gradients, dP - delta cancels in the
# sizes, and P and dS are rounded to 16 bits before they are multiplied. Rotated heads are rounded
# to q's dtype before scores are computed, where a near tie may round either way.
# largest: 24 to 256 GiB of [T·H, T·H] in f64 at 65,537.
# all_elements: heads wider than any model's, and MLA's 131,074 keys. The weight error caused by a
# score's rounding grows with √D, but the visible threshold does not: single errors pass.
TESTS = {
    "flash_attention_lse": {
        "faults": "large,normal",
        "hidden": {"f32": 4, "bf16": 2},
        "all_elements": ("D",),
        "parts": last_queries,
    },
    "flash_attention_varlen_lse": {
        "faults": "large,normal",
        "hidden": {"f32": 2, "bf16": 2},
        "all_elements": ("D",),
        "parts": PACKED,
    },
    "flash_attention_f8_lse": {
        "hidden": {"f32": 4, "bf16": 2, "f16": 2},
        "all_elements": ("D",),
        "parts": last_queries,
    },
    "flash_attention_varlen_f8_lse": {
        "hidden": {"f32": 4, "bf16": 2, "f16": 2},
        "all_elements": ("D",),
        "parts": PACKED,
    },
    "flash_attention_rotary": {
        "hidden": {"f32": 12, "bf16": 8, "f16": 4},
        "largest": {"S": 16384},
        "all_elements": ("Dh",),
    },
    "flash_attention_backward": {
        "hidden": {"f32": 10, "bf16": 3, "f16": 1.5},
        "largest": {"S": 16384, "G": 16384, "L": 16384},
        "all_elements": ("D", "Dv"),
    },
    "flash_attention_varlen_backward": {
        "hidden": {"f32": 8, "bf16": 3, "f16": 1.5},
        "largest": {"G": 16384},
        "parts": PACKED,
    },
    "mla_decode_lse": {
        "faults": "large,normal",
        "hidden": {"f32": 4, "bf16": 2},
        "largest": {"H": 16384},
        "all_elements": ("R", "Dr", "W", "page"),
        "parts": latent_tokens,
    },
    "paged_attention_lse": {
        "faults": "large,normal",
        "hidden": {"f32": 6},
        "largest": {"Hkv": 8192, "G": 8192},
        "all_elements": ("D",),
        "parts": paged_sequences,
    },
    "merge_attention_states": {"largest": {"T": 16384}},
}
