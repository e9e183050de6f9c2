"""Search spaces from Python: which values a knob may take, and which configurations may be tried
at all.

``space=`` maps knobs to values, flat or by implementation::

    tune("matmul", (a, b), space={"block_m": PowerOfTwoSpace(32, 128), "block_k": [256, 512]})
    tune("matmul", (a, b), space={"cpu_avx512": {"block_n": FixedSpace(96)}})
    tune("matmul", (a, b), space={"cpu_avx512.block_n": [96]})

``where=`` holds predicates: a function whose parameters name the knobs it depends on
(``implementation`` counts as one), or an expression over them (``"block_m * block_n <= 16384"``),
or a list of both. A predicate holds for an implementation that lacks one of its knobs. Read next:
tuning.py, src/core/space.hpp.
"""

from __future__ import annotations

import typing as _typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _options, _unknown
from ._arguments import hinted
from ._where import compile_expression
from .errors import ArgumentError

__all__ = [
    "ChoiceSpace",
    "DictSpace",
    "DiscreteSpace",
    "FixedSpace",
    "PowerOfTwoSpace",
    "RangeSpace",
    "Space",
]

Value = int | float | str | bool
Predicate = str | Callable[..., Any]


def _error(argument: str, problem: str, expected: str, got: str, remedy: str) -> ArgumentError:
    message = f"tune: {argument} {problem}; expected {expected}, got {got}; {remedy}"
    error = ArgumentError.from_library(message, "tune", argument, expected, got)
    assert isinstance(error, ArgumentError)
    return error


class Space:
    """The values that a knob may take: those of its own domain for which ``value in space``."""

    def __contains__(self, value: object) -> bool:
        raise NotImplementedError

    def wanted(self) -> tuple[Value, ...]:
        """Values that were listed one by one, and so must be in the knob's domain."""
        return ()


@hinted
class ChoiceSpace(Space):
    """Any of the listed values."""

    def __init__(self, values: Iterable[Value]) -> None:
        self.values = tuple(values)
        if not self.values:
            raise _error(
                "space", "is empty", "at least one value", "none", "list the values to try"
            )

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def wanted(self) -> tuple[Value, ...]:
        return self.values

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.values))})"


@hinted
class FixedSpace(ChoiceSpace):
    """One value."""

    def __init__(self, value: Value) -> None:
        super().__init__([value])


@hinted
class RangeSpace(Space):
    """Numbers from ``low`` to ``high``, both included: a knob takes those that are in its
    domain."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        if not low <= high:
            raise _error(
                "space",
                "has its bounds the wrong way round",
                "low <= high",
                f"{low}, {high}",
                "swap them",
            )

    def __contains__(self, value: object) -> bool:
        return isinstance(value, (int, float)) and self.low <= value <= self.high

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.low}, {self.high})"


class DiscreteSpace(RangeSpace):
    """Integers from ``low`` to ``high``, both included."""

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and super().__contains__(value)


class PowerOfTwoSpace(DiscreteSpace):
    """Powers of two from ``low`` to ``high``, both included."""

    def __contains__(self, value: object) -> bool:
        return (
            super().__contains__(value)
            and isinstance(value, int)
            and value > 0
            and value & (value - 1) == 0
        )


class DictSpace(dict[str, Any]):
    """Spaces by knob, or by implementation and knob; values may be plain lists."""

    def __init__(self, spaces: Mapping[str, Any] | None = None, **named: Any) -> None:
        super().__init__({**(spaces or {}), **named})


def _as_space(value: Any) -> Space:
    if isinstance(value, Space):
        return value
    if isinstance(value, (str, int, float)):
        return FixedSpace(value)
    return ChoiceSpace(value)


Domains = dict[str, dict[str, list[Value]]]
"""implementation → knob → values, from the library."""


def narrow(
    space: Mapping[str, Any], domains: Domains
) -> tuple[list[tuple[str, str, str]], set[str]]:
    """Applies ``space=`` to the knobs' domains.

    Returns the rows (implementation, knob, comma list of values) that the library takes, and the
    implementations for which nothing is left.
    """
    rows: list[tuple[str, str, str]] = []
    empty: set[str] = set()
    for key, value in space.items():
        _options.check_text("tune", "space", key, "names of knobs or implementations")
        if "." in key:  # as on the command line
            key, _, knob = key.partition(".")
            value = {knob: value}
        if isinstance(value, Mapping):
            if key not in domains:
                raise _error(
                    f"space[{key!r}]",
                    "names no implementation",
                    ", ".join(sorted(domains)),
                    key,
                    "see explain()",
                )
            for knob, inner in value.items():
                _narrow_knob(knob, _as_space(inner), {key: domains[key]}, rows, empty)
        else:
            _narrow_knob(key, _as_space(value), domains, rows, empty)
    return rows, empty


def _narrow_knob(
    knob: str, space: Space, domains: Domains, rows: list[tuple[str, str, str]], empty: set[str]
) -> None:
    _options.check_text("tune", "space", knob, "names of knobs")
    owners = {name: knobs[knob] for name, knobs in domains.items() if knob in knobs}
    if not owners:
        known = (
            ", ".join(sorted({k for knobs in domains.values() for k in knobs})) or "no knob at all"
        )
        raise _error(
            "space", f"names an unknown knob {knob}", known, knob, "see info()['operators']"
        )
    every = {value for domain in owners.values() for value in domain}
    for value in space.wanted():
        if value not in every:
            allowed = ", ".join(map(str, sorted(every, key=str)))
            raise _error(
                f"space[{knob!r}]",
                "asks for a value outside the domain",
                allowed,
                str(value),
                "leave it out",
            )
    for implementation, domain in owners.items():
        kept = [value for value in domain if value in space]
        if kept:
            rows.append((implementation, knob, ",".join(map(str, kept))))
        else:
            empty.add(implementation)
    if len(empty & owners.keys()) == len(owners):
        allowed = ", ".join(map(str, sorted(every, key=str)))
        raise _error(
            f"space[{knob!r}]", "leaves no value", f"some of {allowed}", repr(space), "widen it"
        )


def _knobs(implementation: str, config: str) -> dict[str, Value]:
    """``block_m=64 order=kmn`` as a dict; "default" stands for no knobs."""
    values: dict[str, Value] = {"implementation": implementation}
    for word in config.split():
        name, equals, text = word.partition("=")
        if equals:
            values[name] = int(text) if text.lstrip("-").isdigit() else text
    return values


def _predicate(where: Predicate, known: set[str]) -> tuple[tuple[str, ...], Callable[..., Any]]:
    if isinstance(where, str):
        names, function = compile_expression(where)
    elif callable(where):
        import inspect

        names, function = tuple(inspect.signature(where).parameters), where
    else:
        raise _error(
            "where",
            "is no predicate",
            "a function, a text, or a list of them",
            type(where).__name__,
            "pass one",
        )
    for name in names:
        if name not in known:
            raise _error(
                "where",
                f"names an unknown knob {name}",
                ", ".join(sorted(known)),
                name,
                "see info()['operators']",
            )
    return names, function


def compile_where(where: Any, domains: Domains) -> Callable[[str, str], bool] | None:
    """One function (implementation, configuration text) → bool for all predicates; None when
    there are none."""
    if where is None:
        return None
    wanted = [where] if isinstance(where, str) or callable(where) else list(where)
    known = {"implementation", *(knob for knobs in domains.values() for knob in knobs)}
    predicates = [_predicate(p, known) for p in wanted]

    def keep(implementation: str, config: str) -> bool:
        values = _knobs(implementation, config)
        return all(
            function(*(values[name] for name in names))
            for names, function in predicates
            if all(name in values for name in names)
        )

    return keep


if not _typing.TYPE_CHECKING:  # checkers know the names above, and no others
    __getattr__ = _unknown.of(__name__)
