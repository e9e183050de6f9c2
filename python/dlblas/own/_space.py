"""The knobs of a user's implementation: maps Python values to the library's integers and back.

In: ``space=`` (a mapping of knobs to spaces or values, or a list of whole configurations) and
``where=``. Out: the space that the library searches. Integers and booleans are passed unchanged,
other values by a label. Read next: ../spaces.py, src/core/config.hpp.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .. import spaces
from .._nested import Nested
from ..errors import ArgumentError
from ._problem import Operator
from ._words import refuse, refuse_type, text_of

_MAX_VALUES = 1 << 16  # values of a knob, and configurations that are looked at one by one here
_WORD = range(-(1 << 63), 1 << 63)  # what the library's integers hold


def values_of(op: str, knob: str, space: Any) -> list[Any]:
    """The values of a space, one by one."""
    if isinstance(space, spaces.PowerOfTwoSpace):
        powers = itertools.takewhile(lambda n: n <= space.high, (1 << i for i in range(63)))
        found: list[Any] = [n for n in powers if n in space]
    elif isinstance(space, spaces.DiscreteSpace):
        found = list(itertools.islice(range(int(space.low), int(space.high) + 1), _MAX_VALUES + 1))
        found = [n for n in found if n in space]
    elif isinstance(space, spaces.RangeSpace):
        raise refuse(
            op, "space", f"gives {knob} a range of numbers", "values that can be listed",
            repr(space), "use ChoiceSpace or DiscreteSpace",
        )  # fmt: skip
    elif isinstance(space, spaces.ChoiceSpace):
        found = list(space.values)
    elif isinstance(space, (str, int, float)):
        found = [space]
    elif isinstance(space, Iterable):
        found = list(itertools.islice(space, _MAX_VALUES + 1))
    else:
        raise refuse_type(op, f"space[{knob!r}]", "a space or a list of values", space, "list them")
    if not found or len(found) > _MAX_VALUES:
        raise refuse(
            op, "space", f"gives {knob} a wrong number of values", f"1 to {_MAX_VALUES}",
            len(found), "list what is worth trying",
        )  # fmt: skip
    return list(dict.fromkeys(_value(op, knob, value) for value in found))


def _value(op: str, knob: str, value: Any) -> Any:
    if isinstance(value, str):
        return text_of(op, f"space[{knob!r}]", value)
    # NumPy's boolean is called bool_ or bool, and is not a numbers.Real.
    if not isinstance(value, numbers.Real) and type(value).__name__.rstrip("_") != "bool":
        raise refuse_type(
            op, f"space[{knob!r}]", "numbers, truth values or texts", value, "use one of these"
        )
    if isinstance(value, int) and value not in _WORD:
        raise refuse(
            op, f"space[{knob!r}]", "has a value beyond 64 bits", "-2**63 to 2**63 - 1", value,
            "use a smaller one, or a text",
        )  # fmt: skip
    return value


class Knobs:
    """``rows``: what the library gets. ``configs``: the valid configurations, or None if every
    combination is valid."""

    def __init__(self, op: str, domains: Mapping[str, Sequence[Any]]) -> None:
        self._op = op
        self.domains = {name: list(values) for name, values in domains.items()}
        self.rows: tuple[Any, ...] = tuple(self._row(*item) for item in self.domains.items())
        self._codes = {row[0]: list(row[1]) for row in self.rows}
        self._values = {
            name: dict(zip(self._codes[name], values, strict=True))
            for name, values in self.domains.items()
        }
        self.configs: list[tuple[int, ...]] | None = None

    def _row(self, name: str, values: list[Any]) -> tuple[Any, ...]:
        if all(isinstance(value, int) for value in values):
            return (name, tuple(map(int, values)), None)
        labels: dict[str, Any] = {}
        for value in values:  # records and pins know a configuration by its text
            other = labels.setdefault(str(value), value)
            if other is not value:
                raise refuse(
                    self._op, f"space[{name!r}]", "has values that read alike",
                    "a text of its own for each", f"{other!r} and {value!r}", "leave one out",
                )  # fmt: skip
        return (name, tuple(range(len(values))), tuple(labels))

    def encode(self, config: Mapping[str, Any], argument: str) -> tuple[int, ...]:
        """The codes of a whole configuration; raises for a knob or a value outside the space."""
        if not isinstance(config, Mapping):
            raise refuse_type(self._op, argument, "a mapping of knobs", config, "pass a dict")
        known = ", ".join(self.domains) or "no knob"
        if set(config) != set(self.domains):
            raise refuse(
                self._op, argument, "names other knobs than space", known,
                ", ".join(map(str, config)) or "none", "give each knob a value",
            )  # fmt: skip
        return tuple(self._code(name, config[name], argument) for name in self.domains)

    def _code(self, name: str, value: Any, argument: str) -> int:
        if value not in self.domains[name]:
            raise refuse(
                self._op, argument, f"gives {name} a value outside its space",
                ", ".join(map(str, self.domains[name])), value, "use one of these",
            )  # fmt: skip
        return int(self._codes[name][self.domains[name].index(value)])

    def decode(self, codes: Sequence[int]) -> dict[str, Any]:
        """The knob values that the implementation is called with."""
        return {
            name: values[code]
            for (name, values), code in zip(self._values.items(), codes, strict=True)
        }

    def flat_configs(self) -> tuple[int, ...] | None:
        return None if self.configs is None else tuple(itertools.chain(*self.configs))


def read_space(op: str, space: Any) -> Knobs:
    """Reads a mapping of knobs, or a list of whole configurations."""
    if space is None:
        return Knobs(op, {})
    if isinstance(space, Mapping):
        named = ((text_of(op, "space", name), value) for name, value in space.items())
        return Knobs(op, {name: values_of(op, name, value) for name, value in named})
    listed = space.values if isinstance(space, spaces.ChoiceSpace) else space
    configs = list(listed) if isinstance(listed, Iterable) else []
    if not configs or not all(isinstance(config, Mapping) for config in configs):
        raise refuse_type(
            op, "space", "a mapping of knobs, or a list of configurations", space, "pass a dict"
        )
    domains: dict[str, dict[Any, None]] = {text_of(op, "space", name): {} for name in configs[0]}
    for config in configs:
        if set(config) != set(domains):
            raise refuse(
                op, "space", "lists configurations of different knobs", ", ".join(domains),
                ", ".join(map(str, config)), "give each configuration every knob",
            )  # fmt: skip
        for name, value in config.items():
            domains[name][_value(op, name, value)] = None
    knobs = Knobs(op, {name: list(values) for name, values in domains.items()})
    knobs.configs = [knobs.encode(config, "space") for config in configs]
    return knobs


def _predicate(op: Operator, given: Any, knobs: Knobs) -> Any:
    try:
        return spaces._predicate(given, {*knobs.domains, *op.letters})
    except ArgumentError:
        raise
    except (TypeError, ValueError) as error:  # of inspect.signature(), for some builtins
        raise refuse(
            op.name, "where", "does not tell its parameters", "a function of knobs and letters",
            error, "wrap it in one",
        ) from None  # fmt: skip


def _refuse_many(op: str, knobs: Knobs) -> None:
    """Refuses a product too large to enumerate; a list of configurations is already enumerated."""
    count = math.prod(len(codes) for _, codes, _ in knobs.rows)
    if knobs.configs is None and count > _MAX_VALUES:
        raise refuse(
            op, "where", "narrows too large a space", f"at most {_MAX_VALUES} combinations", count,
            "give knobs fewer values, or list the configurations",
        )  # fmt: skip


Allowed = Callable[[Sequence[int], Sequence[int]], bool]


def read_where(op: Operator, where: Any, knobs: Knobs) -> Allowed | None:
    """Narrows ``knobs.configs`` by the predicates over knobs alone; those that also name letters
    become a function (letters, configuration) → bool."""
    if where is None:
        return None
    single = isinstance(where, str) or callable(where)
    if not single and not isinstance(where, Iterable):
        raise refuse_type(
            op.name, "where", "a function, a text, or a list of them", where, "pass one"
        )
    predicates = [_predicate(op, p, knobs) for p in ([where] if single else where)]
    fixed = [p for p in predicates if not set(p[0]) & set(op.letters)]
    others = [p for p in predicates if set(p[0]) & set(op.letters)]

    def holds(predicates: list[Any], values: Mapping[str, Any]) -> bool:
        return all(function(*(values[name] for name in names)) for names, function in predicates)

    if fixed:
        _refuse_many(op.name, knobs)
        every = knobs.configs or itertools.product(*(codes for _, codes, _ in knobs.rows))
        try:
            kept = [tuple(codes) for codes in every if holds(fixed, knobs.decode(codes))]
        except ArgumentError:
            raise
        except Exception as error:
            raise refuse(
                op.name, "where", "raised", "a truth value for each configuration",
                f"{type(error).__name__}: {error}", "let it return False",
            ) from error  # fmt: skip
        if not kept:
            raise refuse(
                op.name, "where", "leaves no configuration", "at least one", "none", "widen it"
            )
        knobs.configs = kept
    if not others:
        return None
    asked = Nested()

    def allowed(letters: Any, codes: Any) -> bool:
        named = {**dict(zip(op.letters, letters, strict=True)), **knobs.decode(codes)}
        with asked as fine:
            if fine:
                return holds(others, named)
        raise refuse(
            op.name, "where", "asks about itself", "an answer from knobs and letters",
            "a call of the operator", "call nothing of dlblas in it",
        )  # fmt: skip

    return allowed
