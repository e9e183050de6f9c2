"""Granularities of 8-bit scales by name, for the operators that quantise what they compute.

In: what a call says. Out: nothing, or an error. Used by: api.py of the families. Read next:
ops/quant/api.py (the granularities of ``quantize``, which finds scales over rows as well).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import ArgumentError

GROUPS = {"group32": 32, "group64": 64, "group128": 128}
_THERE = ", ".join(("token", *GROUPS, "tensor"))


def check_granularity(op: str, before: str, granularity: str, scale: Any) -> None:
    """``before``: the operator that computes what is quantised, for a scale of all rows."""
    if granularity not in ("token", "tensor", *GROUPS):
        raise ArgumentError.from_library(
            f"{op}: granularity is not offered; expected {_THERE}, got {granularity!r}; "
            f"{op}_group takes groups of any width",
            op, "granularity", _THERE, repr(granularity),
        )  # fmt: skip
    if granularity == "tensor" and scale is None:
        expected = 'a scale with granularity "tensor"'
        raise ArgumentError.from_library(
            f"{op}: scale is missing; expected {expected}: one that depends on all rows takes a "
            f'second launch, {before} and then quantize(y, "tensor")',
            op, "scale", expected, "None",
        )  # fmt: skip
    if granularity != "tensor" and scale is not None:
        expected = f"None with granularity {granularity!r}, which makes its scales"
        raise ArgumentError.from_library(
            f"{op}: scale is given; expected {expected}",
            op, "scale", expected, type(scale).__name__,
        )  # fmt: skip


def with_scale(call: Callable[[Any], Any], scale: Any, out: Any, results: int = 2) -> Any:
    """Of a static scale, which is a result without being computed: ``call(out)`` makes the others,
    in order, and their places are those of ``out`` without the scale's, which gets a copy."""
    if out is None:
        made = call(None)
        q, *rest = made if results > 2 else (made,)
        return (q, scale, *rest)
    if not isinstance(out, tuple):  # q alone
        return call(out), scale
    q, place, *rest = out
    call((q, *rest) if rest else q)
    if place is None or place is scale:
        return (q, scale, *rest)
    place[...] = scale
    return out
