"""Operators on tokens ``[T, …]``, called on tensors with more leading dimensions, ``[B, S, …]``:
these are merged into one for the call, and split again in its results.

In: a call that such an operator has refused, with arrays of any package; the operators are those
whose ops/<family>/<op>/<op>.py says TOKENS. Out: its results. Tensors are viewed if their strides
allow it; others are copied, and copied back if they are written. torch.compile can trace it. Used
by: _other_forms.py. Read next: _spread.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ._functions import FUNCTIONS, Function
from ._given import check_writable, flattens, functions_of, strides_of
from ._hooks import said
from ._spread import beside
from .errors import Error, ShapeMismatchError

_Form = Callable[[tuple[Any, ...], dict[str, Any]], Any]


class Tokens(NamedTuple):
    """The tensors of an operator that begin with tokens, and how many dimensions follow those."""

    inputs: dict[str, int]
    results: tuple[int | None, ...] = ()  # None: it has no tokens
    written: tuple[str, ...] = ()  # inputs that are written


_TENSOR = re.compile(r"(\w+): [^\s,\[]+\[([^\]]*)\]")  # of a schema: name and dimensions
_WRITTEN = re.compile(_TENSOR.pattern + r"\??!")


def _tokens_of(function: Function, letter: str) -> Tokens:
    """The tensors of a form whose first dimension is ``letter``, out of its schema. The first input
    of these determines the leading dimensions."""
    arguments, _, results = FUNCTIONS[function.operator].schema.partition(" -> ")

    def behind(dims: str) -> int | None:
        first, *rest = dims.split(", ")
        return len(rest) if first == letter else None

    given = {name: behind(dims) for name, dims in _TENSOR.findall(arguments)}
    made = {name: behind(dims) for name, dims in _TENSOR.findall(results)}
    return Tokens(
        {name: rest for name, rest in given.items() if rest is not None},
        tuple(made[name] for name in function.results),
        (
            *(name for name, _ in _WRITTEN.findall(arguments)),
            *re.findall(r"(\w+)!\w", function.schema),  # of a form in place: x!y
        ),
    )


# By form name.
TOKENS = {
    function.name: _tokens_of(function, letter)
    for function in FUNCTIONS.values()
    if (letter := said(function.operator, "TOKENS", None))
}


def form(name: str) -> _Form:
    """The older form of an operator. It returns the call's result, None if the call is not of this
    kind, or False for an operator that returns nothing."""
    function, tokens = FUNCTIONS[name], TOKENS[name]
    names = tuple(p.name for p in function.params)
    first, behind = next(iter(tokens.inputs.items()))

    def of(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given = {**dict(zip(names, args, strict=False)), **named}
        shape = _shape_of(given.get(first))
        if shape is None or len(shape) < behind + 2 or len(given) < len(args) + len(named):
            return None
        return _joined(name, given, shape[: len(shape) - behind])

    return of


def _shape_of(x: Any) -> tuple[Any, ...] | None:
    """The shape; None if there is none or the tensor is not dense: the operator refuses those."""
    try:
        layout = str(getattr(x, "layout", "torch.strided"))
        return tuple(x.shape) if layout == "torch.strided" else None
    except Exception:  # whatever a foreign object raises
        return None


def _joined(name: str, given: dict[str, Any], lead: tuple[Any, ...]) -> Any:
    tokens = TOKENS[name]
    flat, copies = {**given}, []
    for argument, behind in tokens.inputs.items():
        x = given.get(argument)
        if x is None:
            continue
        shape = _shape_of(x)
        if shape is None:
            return None
        if shape[: max(0, len(shape) - behind)] != lead:
            expected = f"those of {next(iter(tokens.inputs))}, {lead}"
            raise _other_lead(name, argument, argument, expected, shape)
        size = (math.prod(lead), *shape[len(lead) :])
        view = _view(x, behind, size) if argument in tokens.written else None
        flat[argument] = x.reshape(size) if view is None else view
        if argument in tokens.written and view is None:
            check_writable(name, argument, x)
            copies.append((x, flat[argument]))
    out = given.get("out")
    places = out if isinstance(out, tuple) else (out,)
    if out is not None and len(places) == len(tokens.results):
        flat["out"] = tuple(
            _place(name, i, place, behind, lead, copies)
            for i, (place, behind) in enumerate(zip(places, tokens.results, strict=True))
        )
        if len(places) == 1:
            flat["out"] = flat["out"][0]
    made = FUNCTIONS[name].call(**flat)
    for place, values in copies:
        place[...] = values.reshape(tuple(place.shape))
    if not tokens.results:
        return False
    if out is not None:
        return out
    parted = tuple(
        result if behind is None else result.reshape((*lead, *result.shape[1:]))
        for result, behind in zip(
            made if isinstance(made, tuple) else (made,), tokens.results, strict=True
        )
    )
    return parted if isinstance(made, tuple) else parted[0]


def _place(
    name: str, i: int, place: Any, behind: int | None, lead: tuple[Any, ...], copies: list[Any]
) -> Any:
    """The destination of a result, as the operator takes it."""
    shape = _shape_of(place)
    if behind is None or shape is None:
        return place
    results = FUNCTIONS[name].results
    argument = "out" if len(results) == 1 else f"out[{i}]"
    shown = argument if len(results) == 1 else f"{argument} ({results[i]})"
    if shape[: max(0, len(shape) - behind)] != lead:
        raise _other_lead(name, argument, shown, f"{lead}", shape)
    size = (math.prod(lead), *shape[len(lead) :])
    view = _view(place, behind, size)
    if view is None:
        check_writable(name, shown, place)
        view = beside(place, size)
        copies.append((place, view))
    return view


def _view(x: Any, behind: int, size: tuple[Any, ...]) -> Any:
    """A view of x with its leading dimensions merged; None if strides cannot express it."""
    if strides_of(x) is not None:
        return x.reshape(size) if flattens(x, behind) else None
    flat, shares = x.reshape(size), vars(functions_of(x)).get("may_share_memory")
    return flat if shares is not None and shares(flat, x) else None


def _other_lead(op: str, argument: str, shown: str, expected: str, got: tuple[Any, ...]) -> Error:
    return ShapeMismatchError.from_library(
        f"{op}: {shown} has other leading dimensions; expected {expected}, got {got}",
        op, argument, expected, str(got),
    )  # fmt: skip
