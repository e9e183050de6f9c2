"""What tests share that spoil results of operators with a judge of their own: problems, a spoilt
result, ways to be wrong that suit any rows. Each operator has a ``Spoiler`` in tests.py of its
folder or family.

Used by: test_judges_say_no.py. Read next: rooms.py, ops/moe/tests.py, ops/sampling/tests.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import dlblas
import numpy as np
import oracle_perturbations as oracle
from dlblas.harness.call import PATTERNS
from oracle_perturbations import ROUNDING, TILE
from rooms import facts_of

SMALL = 20_000  # elements
LONG, MANY = 2**20, 2**18  # at full depth, one draw of a letter that goes so far
INF = math.inf
# Gates, and masses of one row, that are closer than this are indistinguishable in f32.
APART = 160 * ROUNDING


class Problem(NamedTuple):
    """One call, and another of the same sizes, whose result serves as stale memory."""

    op: str
    text: str
    args: dict[str, Any]
    other: dict[str, Any]

    @property
    def large(self) -> bool:
        return bool(next(iter(self.args.values())).size > SMALL)

    def verify(self, *out: Any, rows: Any = None) -> Any:
        return dlblas.verify(self.op, (), out, self.args, rows=rows)


class Spoilt(NamedTuple):
    way: str
    out: tuple[Any, ...]


IsWrong = Callable[[int, tuple[Any, ...]], bool]  # is this row of a spoilt result wrong?


class Spoiler(NamedTuple):
    """What the tests ask of an operator with a judge of its own."""

    letters: Mapping[str, int]  # each letter, or other size that the judge reads -> the largest
    options: Mapping[str, tuple[Any, ...]]  # that a problem is drawn with, besides the dtype
    # Arguments by name, the rows first, of: letter, its size, options, generator.
    arguments: Callable[[str, int, dict[str, Any], np.random.Generator], dict[str, Any]]
    right: Callable[[dict[str, Any]], tuple[Any, ...]]  # the reference's results, in their dtypes
    spoilt: Callable[
        [Problem, tuple[Any, ...], np.random.Generator], tuple[Iterator[Spoilt], IsWrong]
    ]
    # The ways to be wrong that the sizes of a letter must show between them.
    owed: Callable[[str], set[str]]


def spoiler_of(op: str) -> Spoiler:
    spoiler = facts_of(op).judge
    assert isinstance(spoiler, Spoiler), f"{op} has a judge; expected its Spoiler in tests.py"
    return spoiler


def right_of(op: str, args: dict[str, Any]) -> tuple[Any, ...]:
    return spoiler_of(op).right(args)


def options_of(op: str) -> list[dict[str, Any]]:
    """Everything that a problem is drawn with, besides its sizes."""
    dtypes = ("f32", "f16", *(() if oracle.numpy_missing() else ("bf16",)))
    choices = {"dtype": dtypes, **spoiler_of(op).options}
    rows = itertools.product(*choices.values())
    return [dict(zip(choices, row, strict=True)) for row in rows]


def problem(op: str, letter: str, size: int, options: dict[str, Any], seed: int) -> Problem:
    make = spoiler_of(op).arguments
    both = [make(letter, size, options, np.random.default_rng([seed, i])) for i in (0, 1)]
    told = ", ".join(f"{name}={value}" for name, value in options.items())
    return Problem(op, f"{op}, {letter}={size}, {told}, seed {seed}", *both)


def stale_rows(right: Any, other: Any, rng: np.random.Generator) -> Any:
    """A tile of rows still holds another call's result."""
    first = int(rng.integers(len(right)))
    mixed = right.copy()
    mixed[first : first + TILE] = other[first : first + TILE]
    return mixed


def unwritten(right: Any) -> Iterator[Any]:
    """The last element holds what memory held before: arbitrary bytes, zero, NaN."""
    for pattern in (*PATTERNS, 0):
        last = right.copy()
        last.reshape(-1)[-1:].view(np.uint8)[:] = pattern
        yield last
    if right.dtype.kind != "i":
        last = right.copy()
        last.reshape(-1)[-1:] = np.nan
        yield last


def swapped(rng: np.random.Generator, *arrays: Any) -> Iterator[Any]:
    """Each array with the same two rows swapped."""
    a, b = rng.choice(len(arrays[0]), 2, replace=False)
    order = np.arange(len(arrays[0]))
    order[[a, b]] = b, a
    return (array[order] for array in arrays)
