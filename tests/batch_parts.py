"""Cuts part of a batch where a row is not a row of every argument: some rows of a group, some of
the sequences, the last tokens of a sequence. In: an operator's arguments. Out: the arguments of a
part, and where its results stand in the whole result.

A cut holds one slice per dimension text (``M``, ``E``, ``1|B``), applied wherever the schema has
that dimension, and arrays that replace arguments (offsets).
Used by: test_same_bits_parts.py. Read next: test_same_bits.py, whose rows are apart.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Given = dict[str, Any]


class Cut(NamedTuple):
    slices: dict[str, slice]  # dimension's text -> what is kept
    instead: dict[str, Any]  # argument -> its array in the part
    words: str


Cutter = Callable[[Given, random.Random], Cut | None]  # None: nothing to cut here


def some_of(count: int, pick: random.Random) -> slice:
    """A random range; small ranges are drawn more often than large ones."""
    size = pick.choice(
        [n for n in (1, 1, 2, 3, 5, 8, 9, 17, count // 2, count - 1) if 0 < n < count]
    )
    first = pick.randrange(count - size + 1)
    return slice(first, first + size)


def rows_of_groups(given: Given, pick: random.Random) -> Cut | None:
    """Consecutive rows; they may start or end inside a group."""
    rows = len(given["a"])
    if rows < 2:
        return None
    kept = some_of(rows, pick)
    offsets = np.clip(given["offsets"] - kept.start, 0, kept.stop - kept.start)
    return Cut({"M": kept}, {"offsets": offsets.astype(given["offsets"].dtype)}, f"rows {kept}")


def rows_of_masked(given: Given, pick: random.Random) -> Cut | None:
    """A range of rows in each group, or some of the groups."""
    x = given["x" if "x" in given else "a"]
    counts = given["masked_m"]
    groups = pick.random() < 0.3 and x.shape[0] > 1
    if not groups and x.shape[1] < 2:
        return None
    if groups:
        kept = some_of(x.shape[0], pick)
        return Cut({"E": kept}, {}, f"groups {kept}")
    kept = some_of(x.shape[1], pick)
    there = np.clip(counts - kept.start, 0, kept.stop - kept.start).astype(counts.dtype)
    return Cut({"M": kept}, {"masked_m": there}, f"rows {kept} of each group")


def rows_of_matrices(given: Given, pick: random.Random) -> Cut | None:
    """Rows of each matrix of a batch."""
    rows = given["a"].shape[1]
    if given["a"].ndim != 3 or rows < 2:
        return None
    kept = some_of(rows, pick)
    return Cut({"M": kept}, {}, f"rows {kept} of each matrix")


def groups_of_depth(given: Given, pick: random.Random) -> Cut | None:
    """Some groups of the rows that are summed over."""
    offsets = np.minimum(given["offsets"], len(given["a"]))
    if len(offsets) < 3:
        return None
    kept = some_of(len(offsets) - 1, pick)
    first, last = offsets[kept.start], offsets[kept.stop]
    part = offsets[kept.start : kept.stop + 1] - first
    return Cut({"M": slice(first, last), "E": kept}, {"offsets": part}, f"groups {kept}")


def groups_of_blocks(given: Given, pick: random.Random) -> Cut | None:
    """The same, from the start of the block of 128 rows that has the first group's first row."""
    offsets = np.minimum(given["offsets"], len(given["a"]))
    if len(offsets) < 3:
        return None
    kept = some_of(len(offsets) - 1, pick)
    first, last = int(offsets[kept.start]) // 128, int(offsets[kept.stop])
    part = offsets[kept.start : kept.stop + 1] - 128 * first
    rows, blocks = slice(128 * first, last), slice(first, -(-last // 128))
    slices = {"M": rows, "M/128": blocks, "E": kept}
    return Cut(slices, {"offsets": part.astype(offsets.dtype)}, f"groups {kept}")


def last_queries(given: Given, pick: random.Random) -> Cut | None:
    """The last queries of dense attention: the causal diagonal ends at the last query, so these
    still see the same keys."""
    rows = given["q"].shape[1]
    if rows < 2:
        return None
    kept = some_of(rows, pick)
    kept = slice(rows - (kept.stop - kept.start), rows)
    return Cut({"S": kept, "1|S": kept}, {}, f"queries {kept}")


def sequences(count: str, **offsets_of: str) -> Cutter:
    """Some sequences. ``count``: the letter that counts them; ``offsets_of``: letter of the rows ->
    argument that holds their offsets."""

    def cut(given: Given, pick: random.Random) -> Cut | None:
        offsets = {letter: given[name] for letter, name in offsets_of.items()}
        number = len(next(iter(offsets.values()))) - 1
        if number < 2:
            return None
        kept = some_of(number, pick)
        slices, instead = {count: kept, f"1|{count}": kept}, {}
        for letter, name in offsets_of.items():
            part = offsets[letter][kept.start : kept.stop + 1]
            slices[letter] = slice(part[0], part[-1])
            instead[name] = part - part[0]
        return Cut(slices, instead, f"sequences {kept}")

    return cut


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


def seeded_rows(given: Given, pick: random.Random) -> Cut | None:
    """Only where seeds are given: without them, a draw depends on the row number."""
    if given["x"].ndim != 2 or given.get("seeds") is None or len(given["x"]) < 2:
        return None
    kept = some_of(len(given["x"]), pick)
    return Cut({"T": kept}, {}, f"rows {kept}")


def rows_of_tables(given: Given, pick: random.Random) -> Cut | None:
    """Rows of x; row t of the whole takes row t mod S of the tables."""
    rows = len(given["x"])
    if given["x"].ndim != 2 or rows < 2:
        return None
    kept = some_of(rows, pick)
    taken = np.arange(kept.start, kept.stop) % max(1, len(given["cos"]))
    tables = {name: given[name][taken] for name in ("cos", "sin")}
    return Cut({"T": kept}, tables, f"rows {kept}")


def blocks_of_rows(given: Given, pick: random.Random) -> Cut | None:
    blocks = -(-len(given["x"]) // 128)
    if blocks < 2:
        return None
    kept = some_of(blocks, pick)
    rows = slice(128 * kept.start, min(128 * kept.stop, len(given["x"])))
    return Cut({"N": rows, "N/128": kept}, {}, f"rows {rows}")


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


CUTTERS: dict[str, Cutter] = {
    "awq_dequantize": groups_of_weights,
    "batched_matmul": rows_of_matrices,
    "batched_matmul_nt": rows_of_matrices,
    "causal_conv1d_varlen": sequences("S", T="cu_seqlens"),
    "flash_attention_f8_lse": last_queries,
    "flash_attention_lse": last_queries,
    "flash_attention_varlen_backward": sequences("N", T="cu_seqlens_q", U="cu_seqlens_k"),
    "flash_attention_varlen_f8_lse": sequences("N", T="cu_seqlens_q", U="cu_seqlens_k"),
    "flash_attention_varlen_lse": sequences("N", T="cu_seqlens_q", U="cu_seqlens_k"),
    "gated_delta_rule_packed": sequences("S", T="cu_seqlens"),
    "gptq_dequantize": groups_of_weights,
    "grouped_gemm_k": groups_of_depth,
    "grouped_gemm_k_block": groups_of_blocks,
    "grouped_gemm_masked": rows_of_masked,
    "grouped_gemm_masked_block": rows_of_masked,
    "grouped_gemm_rows": rows_of_groups,
    "grouped_gemm_rows_block": rows_of_groups,
    "linear_rope": rows_of_tables,
    "mla_decode_lse": latent_tokens,
    "paged_attention_lse": paged_sequences,
    "quantize_block128": blocks_of_rows,
    "sample_rows": seeded_rows,
    "silu_and_mul_quant_masked": rows_of_masked,
}
# The part's results differ from the whole's by definition, in every implementation.
NO_PARTS = {
    "moe_align": "places go by the whole batch",
    "moe_permute": "places go by the whole batch; rows are copies",
    "quantize_channel": "a scale is over all rows",
    "quantize_tensor": "a scale is over all rows",
    "topk_gating_backward": "the loss is of the whole batch",
    "topk_gating_slots": "slots are given in the order of the whole batch",
}


def kept(array: Any, dims: list[str], cut: Cut) -> Any:
    """The part of an argument or of a whole result. A dimension of 1 is kept where the schema
    broadcasts it."""
    index = []
    for axis, text in enumerate(dims):
        one = text.startswith("1|") and array.shape[axis] == 1
        index.append(slice(None) if one else cut.slices.get(text, slice(None)))
    return array[tuple(index)]


def part_of(given: Given, dims: dict[str, list[str]], cut: Cut) -> Given:
    """``dims``: the dimension texts of each tensor."""
    part = dict(given)
    for name, value in given.items():
        if name in cut.instead:
            part[name] = cut.instead[name]
        elif hasattr(value, "shape") and name in dims:
            part[name] = kept(value, dims[name], cut)
    return part
