"""Functions that are made of operators (``flash_attention``, ``linear``, ``fused_moe`` …): which
operators they call, and how ``get_op``, ``tune`` and the like handle their names.

In: a name of _faces.py. Out: ``get_op`` for it, the report of what it runs, and an error that lists
its operators where an operator is needed. Read next: _functions.py, tuning.py, _autotune.py.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from ._arguments import not_bound, of_another_type
from ._functions import FUNCTIONS, Function, Parameter, on_unknown
from ._options import refuse as error
from ._reports import Explanation, TuningReport, in_one_line
from .errors import Error, UnknownOperatorError, renamed


def function_named(name: str) -> Callable[..., Any] | None:
    """The function of that name; None if there is no such function."""
    return _faces()[name] if name in names() else None


def _faces() -> dict[str, Any]:
    return vars(sys.modules[f"{__package__}._faces"])  # this package's, which may be a second one


def names() -> list[str]:
    """The names of all these functions."""
    return list(_faces()["__all__"])


def family_of(function: Callable[..., Any]) -> str:
    """The folder of ops/ that defines it."""
    module = getattr(function, "__wrapped__", function).__module__
    return module.rpartition(".")[2].removesuffix("_api")


def operators_of(function: Callable[..., Any]) -> list[str]:
    """The operators that it may call, found through the functions and variables that it uses. Those
    in its module's MADE_OF, which a torch module calls, come first."""
    calls = {id(made.call): made.name for made in FUNCTIONS.values()}
    seen: set[Any] = set()

    def of_value(value: Any) -> Iterator[str]:
        if id(value) in calls:
            yield calls[id(value)]
        elif isinstance(value, dict) and value is not FUNCTIONS:
            for one in value.values():
                yield from of_value(one)
        elif (
            isinstance(value, FunctionType)
            and value.__module__.startswith(f"{__package__}.")
            and value not in seen
        ):
            seen.add(value)
            yield from of_code(value.__code__, value.__globals__)

    def of_code(code: CodeType, around: dict[str, Any]) -> Iterator[str]:
        for name in code.co_names:
            yield from of_value(around.get(name))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from of_code(constant, around)
            elif "FUNCTIONS" in code.co_names and constant in FUNCTIONS:
                yield str(constant)

    inner = getattr(function, "__wrapped__", function)
    named = inner.__globals__.get("MADE_OF", {}).get(inner.__name__, ())
    return list(dict.fromkeys((*(n for n in named if n in FUNCTIONS), *of_value(inner))))


def refuse(name: str) -> None:
    """Raises UnknownOperatorError for the name of such a function, where an operator is needed."""
    function = function_named(name)
    if function is None:
        return
    names = operators_of(function)
    expected = f"{'one of ' if len(names) > 1 else ''}{', '.join(names) or 'an operator'}"
    raise UnknownOperatorError.from_library(
        f"{name}: is a function made of operators, not one; expected {expected}, got {name}; name "
        f"the operator, or tune what calls run: with dlblas.autotune(): dlblas.{name}(…)",
        name, "name", expected, name,
    )  # fmt: skip


on_unknown[:] = [refuse]  # one, however often this module is loaded


def told(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the function so that its errors are the library's: arguments that it does not take, or
    of a wrong type, raise typed errors, and errors of an operator that it calls name the function.
    ``CALLED`` of its module maps the operators' argument names to the function's."""
    name = function.__name__
    meant = function.__globals__.get("CALLED", {}).get(name, {})

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except Error as error:
            if error.op != name and error.argument in meant:
                raise renamed(error, name, meant[error.argument], meant) from error
            end = f"; called by {name}"
            if error.op not in ("", name) and error.args and not error.args[0].endswith(end):
                error.args = (error.args[0] + end, *error.args[1:])
            raise
        except Exception as error:
            trace = error.__traceback__
            outside = isinstance(error, TypeError) and trace is not None and trace.tb_next is None
            if outside:
                words = not_bound(name, function, args, named)
            else:
                words = of_another_type(name, function, args, named, error)
            if words is None:
                raise
            raise words from (None if outside else error)

    call.__module__ = __name__.rpartition(".")[0]  # where it is found, pickled too
    return call


def _copied(value: Any) -> Any:
    """A copy in the same layout, gaps between rows included; anything but an array is returned as
    it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value))
    strides = getattr(value, "strides", None)
    if callable(getattr(value, "as_strided", None)):  # torch
        strides = value.stride()
        reach = 1 + sum((size - 1) * step for size, step in zip(value.shape, strides, strict=True))
        if value.numel() == 0:
            return value
        return value.detach().as_strided((reach,), (1,)).clone().as_strided(value.shape, strides)
    if strides is None or not hasattr(value, "__array_interface__"):
        return value.copy() if hasattr(value, "shape") and hasattr(value, "copy") else value
    import numpy as np

    if value.size == 0 or any(step < 0 or step % value.itemsize for step in strides):
        return value.copy()
    as_strided = np.lib.stride_tricks.as_strided
    steps = [step // value.itemsize for step in strides]
    reach = 1 + sum((size - 1) * step for size, step in zip(value.shape, steps, strict=True))
    return as_strided(as_strided(value, (reach,), (value.itemsize,)).copy(), value.shape, strides)


class Parts(Explanation):
    """What get_op found for the operators that one call runs."""

    __slots__ = ()

    def one_line(self) -> str:
        found = self.as_dict().get("parts", [])
        told = [f"{one['op']} {one['implementation']} {one['config']}".rstrip() for one in found]
        return f"→ {'; '.join(told) or 'all that it runs is known'}"


def get(
    what: str,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    options: Mapping[str, Any],
) -> tuple[Function, TuningReport, Explanation]:
    """``get_op``, or ``tune``, for such a function: one call on copies, and a search of each key
    that the call misses, or of each."""
    import json

    from ._array import Spec
    from ._autotune import autotune

    check_options(what, name, function, options)
    if any(isinstance(value, Spec) for value in (*args, *named.values())):
        raise error(
            what, "args", "holds a Spec", f"arrays: {name} is called once, on copies", "Spec",
            f"or name one of {', '.join(operators_of(function)) or 'an operator'}",
        )  # fmt: skip
    passed = {k: v for k, v in options.items() if k not in _OF_ONE}
    with autotune(force=what == "tune", **passed) as session:
        function(*map(_copied, args), **{key: _copied(value) for key, value in named.items()})
    searched = session.report
    parts = [
        {"op": one["op"], "problem": one["problem"], **(one["served"]), "source": "store"}
        for one in searched
        if one["served"]
    ]
    report = report_of(name, searched)
    text = json.dumps(
        {"op": name, "problem": "", "candidates": [], "why": report.why, "parts": parts}
    )
    words = f"{name}, made of {', '.join(operators_of(function))}\n{report.why}"
    return as_function(name, function, args, named), report, Parts(words, text)


_OF_ONE = ("force", "implementations", "space", "where")


def check_options(
    what: str, name: str, function: Callable[..., Any], options: Mapping[str, Any]
) -> None:
    """Refuses options that are about one operator's implementations."""
    for option in _OF_ONE:
        if options[option] not in (None, False):
            raise error(
                what, option, f"is an operator's, and {name} runs several", "it left out",
                repr(options[option]),
                f"or name one of {', '.join(operators_of(function)) or 'an operator'}",
            )  # fmt: skip


def report_of(name: str, searched: list[TuningReport]) -> TuningReport:
    """The report of such a function: the searches of the operators that one call runs."""
    why = "\n".join(map(in_one_line, searched)) or "all that it runs is known"
    source = "tuned" if any(one["source"] != "store" for one in searched) else "store"
    return TuningReport(
        op=name, problem="", source=source, winner=None, served=None, why=why, parts=list(searched)
    )


def as_function(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]
) -> Function:
    """The function as ``Operation`` calls it, with the kinds of its parameters in this call."""
    from inspect import signature

    bound = signature(function).bind(*args, **named).arguments
    params = tuple(
        Parameter(p, "tensor" if hasattr(bound.get(p), "shape") or p not in bound else "any", ())
        for p in signature(function).parameters
    )
    return Function(name, function, name, "", "", params, ())
