"""Options of a search, judged by name and value before anything is searched.

In: the keyword arguments of ``tune`` and ``get_op``. Out: nothing, or an ArgumentError that names
the argument. What only the library knows (strategies, implementations) is left to it.
Read next: tuning.py.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping
from typing import Any

from .errors import ArgumentError, ArgumentTypeError

_MOST_EVALUATIONS = 2**31 - 1  # an int32 of dlblas_tune_options


def refuse(
    what: str,
    argument: str,
    problem: str,
    expected: str,
    got: str,
    remedy: str,
    kind: type[ArgumentError] = ArgumentError,
) -> Exception:
    """An error in the library's grammar."""
    message = f"{what}: {argument} {problem}; expected {expected}, got {got}; {remedy}"
    return kind.from_library(message, what, argument, expected, got)


def check_seconds(what: str, seconds: Any) -> None:
    try:
        fine = math.isfinite(seconds) and seconds > 0
    except (TypeError, OverflowError):
        fine = False
    if not fine:
        raise refuse(
            what, "seconds", "is no budget", "a finite number above 0", repr(seconds),
            "leave it out for DLBLAS_TUNE_SECONDS",
        )  # fmt: skip


def _check_integer(what: str, argument: str, value: Any, least: int, most: str, end: int) -> None:
    try:
        fine = least <= operator.index(value) < end
    except TypeError:
        fine = False
    if not fine:
        expected = f"an integer from {least} to {most}"
        raise refuse(what, argument, "is out of range", expected, repr(value), "leave it out")


def _check_kind(what: str, argument: str, value: Any, fine: bool, expected: str) -> None:
    if not fine:
        got = type(value).__name__
        raise refuse(
            what, argument, "has the wrong type", expected, got, "leave it out", ArgumentTypeError
        )


def _check_implementations(what: str, names: Any) -> None:
    listed = names.split(",") if isinstance(names, str) else names
    _check_kind(
        what, "implementations", names,
        isinstance(listed, Collection) and all(isinstance(name, str) for name in listed),
        "names of implementations",
    )  # fmt: skip
    if not all(name.strip() for name in listed) or not listed:
        raise refuse(
            what, "implementations", "leaves none", "at least one name", repr(names),
            "leave it out to consider all",
        )  # fmt: skip


def check_options(what: str, options: Mapping[str, Any], known: Collection[str]) -> None:
    """``what``: "tune" or "get_op". None stands for an option that is not given."""
    for name, value in options.items():
        if name not in known:
            raise refuse(
                what, name, "is not an option", ", ".join(known), name, "see help(dlblas.tune)",
                ArgumentTypeError,
            )  # fmt: skip
        if name == "seed":
            _check_integer(what, name, value, 0, "2^64 - 1", 2**64)
        elif value is None:
            continue
        elif name == "seconds":
            check_seconds(what, value)
        elif name == "max_evaluations":
            _check_integer(what, name, value, 1, "2^31 - 1", _MOST_EVALUATIONS + 1)
        elif name == "implementations":
            _check_implementations(what, value)
        elif name == "strategy":
            _check_kind(what, name, value, isinstance(value, str), "the name of a strategy")
        elif name == "space":
            _check_kind(what, name, value, isinstance(value, Mapping), "knobs and their values")
        elif name == "worker":
            _check_kind(what, name, value, isinstance(value, bool), "True, False or None")
        elif name == "progress":
            _check_kind(what, name, value, callable(value), "a function of a ProgressEvent")
