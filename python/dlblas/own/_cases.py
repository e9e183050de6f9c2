"""Rows of ``cases=``: checked by the rules of ops/*/*/cases.json before the operator is registered.

In: the user's rows, the schema's letters and arguments. Out: the rows that the harness, the tuner
and every command read without checking them again. Read next: tools/cases.schema.json,
_operator.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .. import _dtypes
from ._problem import Operator
from ._words import refuse

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
_LEADING = re.compile(r"\*\s*([A-Za-z_]\w*)")  # of a schema: letters that stand for dimensions
_USES = ("test", "bench", "tune", "demo")
_NEEDED = ("name", "dims", "dtypes", "use")
_KEYS = (*_NEEDED, "layouts", "values", "args")

Row = dict[str, Any]


def read(facts: Operator, schema: str, given: Any) -> list[Row]:
    """Returns the checked rows. Raises ArgumentError, which names the row and its key."""
    fine = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))
    rows = list(given) if fine else []
    if not fine or not all(isinstance(row, Mapping) for row in rows):
        got = next((row for row in rows if not isinstance(row, Mapping)), given)
        raise refuse(
            facts.name, "cases", "is no list of rows", "mappings as in ops/*/*/cases.json",
            ascii(got), "see docs/own.md",
        )  # fmt: skip
    leading = set(_LEADING.findall(schema))
    return [_Check(facts, leading, i).row(dict(row)) for i, row in enumerate(rows)]


class _Check:
    def __init__(self, facts: Operator, leading: set[str], index: int) -> None:
        self._facts, self._leading, self._index = facts, leading, index

    def _require(self, fine: bool, key: str, expected: str, got: Any) -> None:
        if not fine:
            where = f"cases[{self._index}]" + (f"[{key!r}]" if key else "")
            raise refuse(
                self._facts.name, "cases", f"has a malformed row: {where}", expected, ascii(got),
                "see docs/own.md",
            )  # fmt: skip

    def row(self, row: Row) -> Row:
        missing = [key for key in _NEEDED if key not in row]
        unknown = [key for key in row if key not in _KEYS]
        self._require(not missing, "", ", ".join(_NEEDED), list(row))
        self._require(not unknown, "", f"no key but {', '.join(_KEYS)}", unknown)
        name = row["name"]
        fine = isinstance(name, str) and _NAME.fullmatch(name) is not None
        self._require(fine, "name", "lower-case letters, digits and _", name)
        self._dims(row["dims"])
        self._words(row, "dtypes", tuple(_dtypes.TABLE))
        self._words(row, "use", _USES)
        if "values" in row:
            from ..harness.values import VALUES  # brings NumPy

            self._words(row, "values", VALUES)
        if "layouts" in row:
            self._layouts(row)
        self._arguments(row.get("args", {}))
        return row

    def _dims(self, dims: Any) -> None:
        letters = self._facts.letters
        fine = isinstance(dims, Mapping) and set(dims) == set(letters)
        self._require(fine, "dims", f"a size for each of {', '.join(letters)}", dims)
        for letter, size in dims.items():
            sizes = size if isinstance(size, list) and letter in self._leading else [size]
            plain = all(type(n) is int and 0 <= n < 1 << 63 for n in sizes)
            lists = ", or a list of sizes" if letter in self._leading else ""
            self._require(plain, "dims", f"{letter} to be a size from 0 on{lists}", size)

    def _words(self, row: Row, key: str, known: tuple[str, ...]) -> None:
        words = row[key]
        fine = isinstance(words, (list, tuple)) and bool(words)
        fine = fine and all(isinstance(word, str) and word in known for word in words)
        expected = f"a list, without repeats, of {', '.join(known)}"
        self._require(fine and len(set(words)) == len(words), key, expected, words)
        row[key] = list(words)

    def _layouts(self, row: Row) -> None:
        from ..harness.cases import INPLACE, OVERLAPPING
        from ..harness.tensors import KINDS

        given = row["layouts"] if isinstance(row["layouts"], (list, tuple)) else ()
        words = [word for word in given if isinstance(word, str)]
        kinds = (*KINDS, INPLACE, OVERLAPPING)
        single = {f"{kind}_{tensor}" for kind in KINDS for tensor in self._facts.tensors}
        others = [w for w in words if w and (set(w) <= {"n", "t"} or w in single)]
        self._require(
            bool(given)
            and len(words) == len(given) == len(set(words))
            and all(word in kinds or word in others for word in words),
            "layouts",
            f"a list, without repeats, of {', '.join(kinds)}, of these with _<tensor>, of n and t",
            row["layouts"],
        )
        row["layouts"] = words

    def _arguments(self, args: Any) -> None:
        known = (*self._facts.inputs, *self._facts.scalars)
        fine = isinstance(args, Mapping) and set(args) <= set(known)
        self._require(fine, "args", f"values of some of {', '.join(known)}", args)
        for name, value in args.items():
            plain = isinstance(value, (bool, int, float, str))
            self._require(plain, "args", f"{name} to be a number, a truth value or a text", value)
