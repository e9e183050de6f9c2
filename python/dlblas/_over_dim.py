"""``softmax(x, dim=-1)`` and other row operators over a dimension other than the last: through a
transposed view, without a copy of x.

In: a call with ``dim``, which the operators do not know; they are those whose
ops/<family>/<op>/<op>.py says OVER_DIM. Out: the operator's result, contiguous; under autograd, a
transposed view. A call without ``dim`` never gets here. Used by: _other_forms.py.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from ._empty import empty
from ._functions import FUNCTIONS
from ._given import integer
from ._hooks import has_memory, is_planning, takes_dim
from .errors import ArgumentError, ArgumentTypeError


def _places_of(name: str) -> tuple[str, ...]:
    """The positional parameters: ``dim`` follows an x that is alone."""
    signature = FUNCTIONS[name].schema.partition("(")[2].partition(" -> ")[0].partition(", *,")[0]
    places = tuple(re.findall(r"(?:^|, )(\w+): ", signature))
    return (*places, "dim") if len(places) == 1 else places


def _over(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The result; None if ``dim`` is not given, or if the arguments are not a call of this kind."""
    places = _PLACES[name]
    given = {**dict(zip(places, args, strict=False)), **named}
    if "dim" not in given or "x" not in given or len(given) < len(args) + len(named):
        return None
    x, out = given["x"], given.get("out")
    axis = _axis(name, x, given.pop("dim"))
    call = FUNCTIONS[name].call
    if axis is None:
        return call(**given)
    given["x"] = _turned(name, "x", x, axis)
    if out is None and _is_followed(x):
        return call(**given).swapaxes(axis, -1)
    if out is None:
        out = empty(x, tuple(x.shape), x.dtype, name)
    given["out"] = _turned(name, "out", out, axis)
    call(**given)
    return out


def _is_followed(x: Any) -> bool:
    """Whether autograd or a tracer tracks x. They take no ``out``, so the result is then a view of
    what the operator returns."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return False
    followed = x.requires_grad and torch.is_grad_enabled()
    if followed or torch.compiler.is_compiling():
        return True
    return not (has_memory(torch, x) or is_planning())


def _axis(name: str, x: Any, dim: Any) -> int | None:
    """The axis; None for the last one, and for an x without dimensions, which the operator
    refuses."""
    shape = getattr(x, "shape", ())
    rank = len(shape) if isinstance(shape, tuple) else 0
    place = integer(name, "dim", dim)
    if rank == 0:
        return None
    if not -rank <= place < rank:
        expected = f"{-rank} to {rank - 1}"
        raise ArgumentError.from_library(
            f"{name}: dim is out of range; expected {expected}, got {place}",
            name, "dim", expected, str(place),
        )  # fmt: skip
    return None if place in (-1, rank - 1) else place % rank


def _turned(name: str, argument: str, array: Any, axis: int) -> Any:
    if hasattr(array, "swapaxes") and len(array.shape) > axis:
        return array.swapaxes(axis, -1)
    expected, got = "an array of as many dimensions as x, with swapaxes", type(array).__name__
    raise ArgumentTypeError.from_library(
        f"{name}: {argument} cannot be turned; expected {expected}, got {got}",
        name, argument, expected, got,
    )  # fmt: skip


def _form(name: str) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    return lambda args, named: _over(name, args, named)  # torch's tracer reads no partial here


# Operator -> its positional parameters.
_PLACES = {n: _places_of(n) for n, made in FUNCTIONS.items() if takes_dim(n, made.operator)}
FORMS = {name: _form(name) for name in _PLACES}
