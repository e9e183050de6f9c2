"""Sizes of dimensions, as the library describes them: terms, a divisor, an addend.

In: rows of bindings/c/introspect.cpp and bindings/python/torch_register.cpp. Out: ``Dim``, whose
arithmetic works on integers and on torch's symbolic ones alike. Parsing and printing are in C++:
src/core/schema.hpp, src/core/dim.cpp. Read next: torch/_fakes.py, _specs.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Term(NamedTuple):
    """``coefficient · letter``, or ``coefficient · letter · times``."""

    coefficient: int
    letter: str
    times: str  # or ""

    def value(self, sizes: Mapping[str, Any]) -> Any:
        one = self.coefficient * sizes[self.letter]
        return one * sizes[self.times] if self.times else one


class Dim(NamedTuple):
    """``(term + …) / divisor + addend``; ``/`` rounds up, ``//`` (``whole``) must divide exactly.
    Without terms, the constant ``addend``."""

    text: str  # as a schema writes it
    terms: tuple[Term, ...]
    divisor: int
    divisor_letter: str  # divides instead of ``divisor``, or ""
    whole: bool
    addend: int
    leading: bool  # ``*T``: any number of dimensions, flattened
    may_be_one: bool  # ``1|M``
    may_be_half: bool  # ``D|2D``

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters, each once, in order of appearance."""
        every = [name for t in self.terms for name in (t.letter, t.times)]
        return tuple(dict.fromkeys(filter(None, [*every, self.divisor_letter])))

    @property
    def plain(self) -> str:
        """The letter, if the dimension is that letter without arithmetic, else ""."""
        only = len(self.letters) == 1 and self.terms == (Term(1, self.letters[0], ""),)
        return self.letters[0] if only and self.divisor == 1 and not self.addend else ""

    def is_linear_in(self, letter: str) -> bool:
        """Whether a size of this dimension gives ``letter`` once the other letters are known."""
        square = any(t.letter == t.times == letter for t in self.terms)
        invertible = self.whole or (self.divisor == 1 and not self.divisor_letter)
        there = any(letter in (t.letter, t.times) for t in self.terms)
        return there and invertible and not square and self.divisor_letter != letter

    def ignores(self, letters: list[str], sizes: Mapping[str, Any]) -> bool:
        """Whether the size does not depend on these letters because each is multiplied by a letter
        of size 0: G in ``Hkv*G`` where Hkv is 0. A symbolic size is never 0 here: torch turns 0
        into a number."""

        def none(letter: str) -> bool:
            return letter not in letters and isinstance(sizes[letter], int) and sizes[letter] == 0

        pairs = [(t.letter, t.times) for t in self.terms]
        pairs += [(times, letter) for letter, times in pairs]
        return self.divisor_letter not in letters and all(
            bool(other) and none(other) for letter, other in pairs if letter in letters
        )

    def by(self, sizes: Mapping[str, Any]) -> Any:
        """The divisor."""
        return sizes[self.divisor_letter] if self.divisor_letter else self.divisor

    def total(self, sizes: Mapping[str, Any]) -> Any:
        """The sum of the terms, before the division."""
        total: Any = 0
        for term in self.terms:
            total = total + term.value(sizes)
        return total

    def evaluate(self, sizes: Mapping[str, Any]) -> Any:
        """The size, rounded up. The caller checks that ``//`` divides and the divisor is above
        0."""
        if not self.terms:
            return self.addend
        by, total = self.by(sizes), self.total(sizes)
        if not (isinstance(by, int) and by == 1):
            total = (total + by - 1) // by
        return total + self.addend

    def smaller(self, sizes: Mapping[str, Any]) -> Any:
        """The other size that an input may have: 1 of ``1|M``, D of ``D|2D``."""
        return 1 if self.may_be_one else self.evaluate(sizes) // 2

    def solve(self, letter: str, sizes: Mapping[str, Any], size: Any) -> tuple[Any, Any]:
        """(rest, step): if this dimension has ``size``, the letter is ``rest / step``, if that is
        whole."""
        rest: Any = (size - self.addend) * self.by(sizes)
        step: Any = 0
        for term in self.terms:
            if letter == term.letter:
                step = step + term.coefficient * (sizes[term.times] if term.times else 1)
            elif letter == term.times:
                step = step + term.coefficient * sizes[term.letter]
            else:
                rest = rest - term.value(sizes)
        return rest, step


def of_tuple(row: Any) -> Dim:
    """A ``Dim`` from the extension's tuple."""
    text, terms, divisor, letter, whole, addend, *flags = row
    read = tuple(Term(*term) for term in terms)
    return Dim(text, read, divisor, letter, bool(whole), addend, *map(bool, flags))


def of_json(row: Mapping[str, Any]) -> Dim:
    """A ``Dim`` from a dimension in ``info()["operators"]``."""
    terms = [(t["coefficient"], t["letter"], t["times"]) for t in row["terms"]]
    rest = [row[name] for name in Dim._fields[2:]]
    return of_tuple((row["text"], terms, *rest))
