"""An operator's schema as registration needs it, and a problem as ``supports=`` sees it.

In: a row of ``info()["operators"]``; the tuple that bindings/python/own.cpp builds from a Problem.
Read next: _register.py.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .. import _dtypes, _functions, _native
from .._functions import resolve
from ._words import text_of

_LAYOUTS = (
    "contiguous", "row_strided", "rows_outer", "transposed", "broadcast", "other", "rows_broadcast",
    "matrices_transposed", "tokens_outer",
)  # fmt: skip


class Operator(NamedTuple):
    """Names in schema order."""

    name: str
    letters: tuple[str, ...]
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    scalars: tuple[str, ...]
    optional: frozenset[str]  # inputs that may be absent
    written: tuple[str, ...]  # inputs that the operator writes: judged like results
    keys: Mapping[str, Any]  # scalars that a problem holds, with their defaults
    required: frozenset[str]  # scalars without a default
    usual: frozenset[str] = frozenset()  # optional inputs that are usually there
    bucketed: frozenset[str] = frozenset()  # letters that a problem holds by their bucket's end

    @property
    def tensors(self) -> tuple[str, ...]:
        return self.inputs + self.results

    @property
    def judged(self) -> tuple[str, ...]:
        return self.results + self.written


def operator(name: str) -> Operator:
    """The operator ``name``. Raises UnknownOperatorError, which lists the known ones, or
    ArgumentError if ``name`` is not a text."""
    wanted = resolve(text_of("register", "op", name))[0].operator
    row = _native.operator_row(wanted)
    scalars = [p for p in row["forms"][0]["params"] if p["kind"] != "tensor"]
    return Operator(
        wanted,
        tuple(letter["name"] for letter in row["letters"]),
        tuple(t["name"] for t in row["tensors"]),
        tuple(t["name"] for t in row["results"]),
        tuple(p["name"] for p in scalars),
        frozenset(t["name"] for t in row["tensors"] if t["optional"]),
        tuple(t["name"] for t in row["tensors"] if t["written"]),
        {p["name"]: False if p["key_set"] else p["default"] for p in scalars if p["key"]},
        frozenset(p["name"] for p in scalars if not p["has_default"]),
        frozenset(t["name"] for t in row["tensors"] if t["usual"]),
        frozenset(letter["name"] for letter in row["letters"] if letter["bucketed"]),
    )


def of_schema(schema: str) -> Operator:
    """The operator of an unregistered schema; raises ArgumentError if it does not parse. Key
    scalars have None in place of their defaults."""
    name, letters, inputs, results, scalars = _functions.native["own_schema"](schema)
    return Operator(
        name,
        letters,
        tuple(row[0] for row in inputs),
        results,
        tuple(row[0] for row in scalars),
        frozenset(row[0] for row in inputs if row[1]),
        tuple(row[0] for row in inputs if row[2]),
        {row[0]: None for row in scalars if row[1]},
        frozenset(row[0] for row in scalars if not row[2]),
    )


def _bucket_before(end: int) -> int:
    """The end of the bucket before the one that ends here; see src/core/problem.hpp."""
    if end <= 1:
        return end - 1
    if end & (end - 1):  # three quarters of a power of two, or no bucket's end
        return end // 3 * 2 if end % 3 == 0 and end > 64 else end - 1
    return end // 4 * 3 if end > 64 else end // 2


class Problem:
    """What a choice may depend on: ``letters`` (a token count is given as its bucket's upper end),
    ``dtypes`` and ``layouts`` by tensor (absent ones are left out), ``alignments`` in bytes,
    ``in_place`` (result → the input whose memory it shares), key ``scalars`` (for ``key(set)``:
    whether it differs from its default), ``device``, ``arch``, ``units``, ``threads``,
    ``deterministic`` and ``repeatable``. ``problem.C`` is short for ``problem.letters["C"]``."""

    def __init__(self, op: Operator, row: tuple[Any, ...]) -> None:
        letters, tensors, scalars, device, index, self.arch, self.units, self.threads, flags = row
        self.op = op.name
        self.letters = dict(zip(op.letters, letters, strict=True))
        there = {n: t for n, t in zip(op.tensors, tensors, strict=True) if t[1]}
        self.dtypes = {n: _dtypes.NAMES[t[0], t[1]] for n, t in there.items()}
        self.layouts = {n: _LAYOUTS[t[2]] for n, t in there.items()}
        self.alignments = {n: t[3] for n, t in there.items()}
        self.in_place = {n: op.inputs[t[4]] for n, t in there.items() if t[4] >= 0}
        self.scalars = {
            n: value for n, value in zip(op.scalars, scalars, strict=True) if n in op.keys
        }
        self.device = "cpu" if device == 1 else f"cuda:{index}"
        self.deterministic, self.repeatable = bool(flags & 1), bool(flags & 4)

    def of_other_sizes(self, op: Operator) -> Iterator[Problem]:
        """Yields this problem at up to two other sizes of its key: every bucketed letter one below
        its bucket's end, then at its bucket's smallest size."""
        for smallest in (False, True):
            other = dict(self.letters)
            for name in op.bucketed:
                before = _bucket_before(other[name])
                other[name] = before + 1 if smallest else max(before + 1, other[name] - 1)
            if other != self.letters:
                made = copy.copy(self)
                made.letters = other
                yield made

    def __getattr__(self, name: str) -> int:
        try:
            return int(self.__dict__["letters"][name])
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self) -> str:
        letters = " ".join(f"{name}={size}" for name, size in self.letters.items())
        return f"<{self.op} [{letters}] {self.dtypes} {self.device}>"
