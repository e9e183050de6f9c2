"""Granularities of 8-bit scales by name, for the operators that quantise their own results.

In: a call's arguments. Out: results with the given scale, or an error. Used by: api.py of the
families. Read next: ops/quant/api.py (the granularities of ``quantize``, which finds scales over
rows as well).
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_float
from importlib import import_module
from typing import Any

from ._array import Array
from ._dtypes import name_of
from ._given import check_place, in_f32, is_numpy
from ._overlap import check_apart
from ._results import places_of
from .errors import ArgumentError

GROUPS = {"group32": 32, "group64": 64, "group128": 128}
_THERE = ", ".join(("token", *GROUPS, "tensor"))


def check_granularity(op: str, granularity: str, scale: Any) -> None:
    """Refuses a granularity that is not offered, or that does not fit ``scale``."""
    if granularity not in ("token", "tensor", *GROUPS):
        raise ArgumentError.from_library(
            f"{op}: granularity is not offered; expected {_THERE}, got {granularity!r}; "
            f"{op}_group takes groups of any width",
            op, "granularity", _THERE, repr(granularity),
        )  # fmt: skip
    if granularity != "tensor" and scale is not None:
        expected = f"None with granularity {granularity!r}, which makes its scales"
        raise ArgumentError.from_library(
            f"{op}: scale is given; expected {expected}",
            op, "scale", expected, type(scale).__name__,
        )  # fmt: skip


def check_codes(op: str, out: Any, names: tuple[str, ...], x: Any, shape: Any, dtype: Any) -> Any:
    """Refuses, before a first launch, places of q and its scale that a second one would refuse.
    Returns those two, or None."""
    if out is None:
        return None
    places = places_of(op, out, names)
    check_place(op, "out[0] (q)", places[0], (tuple(shape),), name_of(dtype) or str(dtype), x)
    check_place(op, "out[1] (scale)", places[1], ((),), "f32", x)
    check_apart(op, places[0], scale=places[1])
    for place in places[:2]:
        check_apart(op, place, x=x)
    return places[:2]


def with_scale(
    op: str,
    call: Callable[[Any], Any],
    scale: Any,
    out: Any,
    names: tuple[str, ...] = ("q", "scale"),
    shapes: tuple[tuple[Any, ...], ...] = ((), (1,)),
) -> Any:
    """All results of a call with a static scale, which is a result that is not computed and has
    one of ``shapes``.
    ``call(out)`` computes the other results, in order, into the arrays of ``out`` without the
    scale's, which gets a copy of the scale. ``names``: the names of all results."""
    if isinstance(scale, (int, float)) and scale <= 0:  # of arrays, CPUs alone read the values
        raise ArgumentError.from_library(
            f"{op}: scale is not above 0; expected above 0, got {scale}",
            op, "scale", "above 0", str(scale),
        )  # fmt: skip
    if out is None:
        made = call(None)
        q, *rest = made if len(names) > 2 else (made,)
        return (q, scale, *rest)
    if not isinstance(out, (tuple, list)) and len(names) == 2:  # q alone
        return call(out), scale
    if not isinstance(out, tuple) or len(out) != len(names):
        expected = f"{len(names)} ({', '.join(names)})"
        got = str(len(out)) if isinstance(out, tuple) else "1"
        raise ArgumentError.from_library(
            f"{op}: out has the wrong number of arrays; expected {expected}, got {got}; pass a "
            "tuple in result order",
            op, "out", expected, got,
        )  # fmt: skip
    q, place, *rest = out
    if place is None or place is scale:
        call((q, *rest) if rest else q)
        return (q, scale, *rest)
    check_place(op, "out[1] (scale)", place, shapes, "f32", q)
    call((q, *rest) if rest else q)
    place[...] = as_placed(scale, place)
    return out


def as_placed(scale: Any, place: Any) -> Any:
    """The value to assign to ``place``: a scale of its package and shape, or a number."""
    if isinstance(scale, Array):
        scale = c_float.from_address(scale.data).value
    if isinstance(place, Array):
        scale = number_beside(place, float(scale))
    if not hasattr(scale, "shape"):
        return scale
    near = hasattr(scale, "new_empty") == hasattr(place, "new_empty")  # of one package
    return scale.reshape(tuple(place.shape)) if near else float(scale)


def number_beside(like: Any, value: float) -> Any:
    """A number as an f32 array without dimensions, of the package and device of ``like``; unchanged
    if ``like`` cannot create one."""
    value = in_f32(value)
    if hasattr(like, "new_full"):
        import torch

        return like.new_full((), value, dtype=torch.float32)
    if is_numpy(like):
        return import_module("numpy").full((), value, "float32")
    if type(like) is Array:
        made = Array((), "f32")
        c_float.from_address(made.data).value = value
        return made
    return value
