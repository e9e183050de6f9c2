"""Checks the options of a search by name and value before anything is searched.

In: the keyword arguments of ``tune`` and ``get_op``. Out: nothing, or an ArgumentError that names
the argument. The library itself checks what only it knows (strategies, implementations). Read next:
tuning.py.
"""

from __future__ import annotations

import functools
import math
import operator
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

from .errors import ArgumentError, ArgumentTypeError

EFFORTS: dict[str, float | None] = {"quick": 2.0, "normal": None, "thorough": 60.0}
"""``effort=`` as a budget in seconds; None: DLBLAS_TUNE_SECONDS, else 10."""
DEMO_SECONDS = 3.0
"""Of ``dlblas demo``, a key: the command's help names it before demo.py is imported."""

_P = ParamSpec("_P")
_R = TypeVar("_R")
_MAX_EVALUATIONS = 2**31 - 1  # an int32 of dlblas_tune_options


def refuse(
    what: str,
    argument: str,
    problem: str,
    expected: str,
    got: str,
    remedy: str,
    kind: type[ArgumentError] = ArgumentError,
) -> Exception:
    """An error in the library's message format."""
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


def check_text(what: str, argument: str, value: Any, expected: str) -> None:
    if not isinstance(value, str):
        got = type(value).__name__
        raise refuse(
            what, argument, "has the wrong type", expected, got, "write it", ArgumentTypeError
        )


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


def knows_its_options(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuses an unknown keyword with the library's own error, which lists the known ones."""
    what = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    code: Any = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    known = [name for name in positional if name == "seconds"]
    known += [name for name in function.__kwdefaults__ or {} if name != "kwargs"]
    named = {*positional, *known, "kwargs"}

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for name in kwargs:
            if name not in named:
                raise refuse(
                    what, name, "is not an option", ", ".join(known), name,
                    f"see help(dlblas.{what})", ArgumentTypeError,
                )  # fmt: skip
        if len(args) > code.co_argcount and "args" in named:
            raise refuse(
                what, "args", "is not a tuple", "the operator's name and one tuple",
                f"{len(args)} arguments", f'write dlblas.{what}("rms_norm", (x, weight))',
                ArgumentTypeError,
            )  # fmt: skip
        return function(*args, **kwargs)

    return checked


def _check_effort(what: str, effort: Any, seconds: Any) -> None:
    _check_kind(what, "effort", effort, isinstance(effort, str), ", ".join(EFFORTS))
    if effort not in EFFORTS:
        raise refuse(
            what, "effort", "is unknown", ", ".join(EFFORTS), repr(effort),
            "or give seconds",
        )  # fmt: skip
    if seconds is not None:
        raise refuse(
            what, "effort", "is given with seconds", "one of them", f"seconds={seconds!r}",
            "leave one out",
        )  # fmt: skip


def check_options(what: str, options: Mapping[str, Any]) -> None:
    """Checks the options of ``what`` ("tune", "get_op"); None means that an option is not given."""
    for name, value in options.items():
        if name == "seed":
            _check_integer(what, name, value, 0, "2^64 - 1", 2**64)
        elif value is None:
            continue
        elif name == "seconds":
            check_seconds(what, value)
        elif name == "effort":
            _check_effort(what, value, options.get("seconds"))
        elif name == "max_evaluations":
            _check_integer(what, name, value, 1, "2^31 - 1", _MAX_EVALUATIONS + 1)
        elif name == "implementations":
            _check_implementations(what, value)
        elif name == "strategy":
            _check_kind(what, name, value, isinstance(value, str), "the name of a strategy")
        elif name == "space":
            _check_kind(what, name, value, isinstance(value, Mapping), "knobs and their values")
        elif name == "where":
            several = isinstance(value, Iterable)
            _check_kind(what, name, value, several or callable(value), "a function or a text")
        elif name == "worker":
            _check_kind(what, name, value, isinstance(value, bool), "True, False or None")
        elif name == "progress":
            fine = isinstance(value, bool) or callable(value)
            _check_kind(
                what, name, value, fine, "True, False, None or a function of a ProgressEvent"
            )
        elif name == "log":
            fine = isinstance(value, (str, os.PathLike))
            _check_kind(what, name, value, fine, "the path of a CSV file")
