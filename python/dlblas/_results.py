"""``out=`` of functions whose operators return more than they do, or whose results have other
dimensions: attention without its lse, and losses that are reduced after an operator.

In: a call's ``out``. Out: destinations that the operator takes, or a typed error before anything is
written. Used by: ops/<family>/api.py. Read next: _given.py (check_place), _overlap.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ._empty import empty
from ._given import asks_for_gradients, check_place, grad_error, no_array
from ._overlap import check_apart
from ._spread import reshaped
from .errors import ArgumentError, Error, ShapeMismatchError, renamed


def places_of(op: str, out: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """``out`` as a tuple of one destination per result; one alone is not in a tuple."""
    several, count = isinstance(out, (tuple, list)), len(names)
    if several != (count > 1) or (several and (len(out) != count or not isinstance(out, tuple))):
        expected = f"{count} ({', '.join(names)})"
        got = str(len(out)) if several else "1"
        got += " in a list" if isinstance(out, list) else ""
        advice = "pass a tuple in result order" if count > 1 else "pass the array itself"
        raise ArgumentError.from_library(
            f"{op}: out has the wrong number of arrays; expected {expected}, got {got}; {advice}",
            op, "out", expected, got,
        )  # fmt: skip
    return out if isinstance(out, tuple) else (out,)


def attention(
    op: str, call: Callable[[Any], Any], q: Any, out: Any, return_lse: bool,
    lse_shape: Callable[[tuple[Any, ...]], tuple[Any, ...]], rows: int = 0,
) -> Any:  # fmt: skip
    """``o``, or ``(o, lse)`` with return_lse, of ``call(out)``, which writes both. ``lse_shape``:
    the lse's shape from that of q. ``rows``: the number of o's leading dimensions that the operator
    sees as one; the results have them all."""
    if out is None:
        o, lse = call(None)
        return (o, lse) if return_lse else o
    names = ("o", "lse") if return_lse else ("o",)
    places = places_of(op, out, names)
    if rows:
        places = tuple(
            _as_rows(op, "out" if len(names) == 1 else f"out[{i}] ({names[i]})", x, rows)
            for i, x in enumerate(places)
        )
    for i, place in enumerate(places):
        argument = "out" if len(names) == 1 else f"out[{i}]"
        if not hasattr(place, "shape"):
            raise no_array(op, argument, place)
        if asks_for_gradients(place):
            raise grad_error(op, argument)
    if not return_lse:
        places = (*places, empty(q, lse_shape(tuple(q.shape)), "f32", op))
    try:
        call(places)
    except Error as error:
        raise error if return_lse else _of_one(error) from None
    return out


def _as_rows(op: str, shown: str, place: Any, rows: int) -> Any:
    """A view of the destination with its first ``rows`` dimensions as one."""
    shape = tuple(getattr(place, "shape", ()))
    if len(shape) < rows:  # the operator says what does not fit
        return place
    count: Any = 1
    for size in shape[:rows]:
        count = count * size
    wanted = (count, *shape[rows:])
    view = reshaped(place, wanted)
    if view is None:
        expected, got = "rows at one stride", "several strides"
        raise ArgumentError.from_library(
            f"{op}: {shown} has leading dimensions that do not flatten; expected {expected}, got "
            f"{got}; pass a contiguous one",
            op, shown.partition(" ")[0], expected, got,
        )  # fmt: skip
    return view


def _of_one(error: Error) -> Error:
    """The error, with the only result called ``out``."""
    again = renamed(error, error.op, re.sub(r"^out\[0\]$", "out", error.argument))
    again.args = (re.sub(r"out\[0\](?: \(\w+\))?", "out", str(error)), *error.args[1:])
    return again


def check_loss(
    op: str, out: Any, names: tuple[str, ...], shape: tuple[Any, ...], inputs: dict[str, Any]
) -> tuple[Any, ...]:
    """The destinations of f32 results that are copied there after the call; refuses inputs that
    require grad, as operators with ``out`` do."""
    places = places_of(op, out, names)
    for name, x in inputs.items():
        if asks_for_gradients(x):
            raise grad_error(op, name)
    like = next(iter(inputs.values()))
    for i, place in enumerate(places):
        shown = "out" if len(names) == 1 else f"out[{i}] ({names[i]})"
        check_place(op, shown, place, (shape,), "f32", like)
        check_apart(op, place, **inputs)
    return places


def check_shape(op: str, out: Any, sizes: tuple[Any, ...]) -> None:
    """Refuses an ``out`` of another shape."""
    got = tuple(getattr(out, "shape", ()))
    if got != sizes:
        raise ShapeMismatchError.from_library(
            f"{op}: out has another shape; expected {sizes}, got {got}",
            op, "out", str(sizes), str(got),
        )  # fmt: skip
