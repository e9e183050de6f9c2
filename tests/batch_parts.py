"""Cuts part of a batch where a row is not a row of every argument: some rows of a group, some of
the sequences, the last tokens of a sequence. In: an operator's arguments. Out: the arguments of a
part, and where its results stand in the whole result.

A cut holds one slice per dimension text (``M``, ``E``, ``1|B``), applied wherever the schema has
that dimension, and arrays that replace arguments (offsets). An operator names its cutter, or makes
one, in tests.py of its folder or family. Used by: test_same_bits_parts.py. Read next: rooms.py,
test_same_bits.py (operators whose rows are apart).
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


def kept(array: Any, dims: list[str], cut: Cut) -> Any:
    """The part of an argument or of a whole result. A dimension of 1 is kept where the schema
    broadcasts it."""
    index = []
    for axis, text in enumerate(dims):
        one = text.startswith("1|") and array.shape[axis] == 1
        index.append(slice(None) if one else cut.slices.get(text, slice(None)))
    return array[(*index, ...)]  # an array of no dimensions stays one


def part_of(given: Given, dims: dict[str, list[str]], cut: Cut) -> Given:
    """``dims``: the dimension texts of each tensor."""
    part = dict(given)
    for name, value in given.items():
        if name in cut.instead:
            part[name] = cut.instead[name]
        elif hasattr(value, "shape") and name in dims:
            part[name] = kept(value, dims[name], cut)
    return part
