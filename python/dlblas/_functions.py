"""The operators' callables, and the extension that creates them.

In: libdlblas.so, which _native.py has loaded. Out: ``FUNCTIONS`` (every callable form), ``native``
(the extension's builtins), ``resolve`` (a name to its form). Read next: bindings/python/init.cpp.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _array, _hooks, _native
from .errors import ArgumentTypeError, UnknownOperatorError


class Parameter(NamedTuple):
    name: str
    kind: str  # "tensor", "int", "float", "bool", "enum", "dtype"
    labels: tuple[str, ...]  # of an enumeration


class Function(NamedTuple):
    """A callable form of an operator: the functional one or an in-place one."""

    name: str
    call: Any  # the builtin
    operator: str
    family: str
    schema: str
    params: tuple[Parameter, ...]
    results: tuple[str, ...]  # empty for an in-place form


def _start() -> dict[str, Any]:
    init = _native.library().dlblas_python_init
    init.restype = ctypes.c_void_p  # as py_object, a null pointer crashes in a subinterpreter
    init.argtypes = [ctypes.py_object, ctypes.c_size_t, ctypes.POINTER(ctypes.c_char_p)]
    why_not = ctypes.c_char_p()
    address = init(_hooks.TABLE, object.__basicsize__, ctypes.byref(why_not))
    if not address:
        words = (why_not.value or b"").decode()
        raise ImportError(f"dlblas: {words}, got {sys.version}")
    table: dict[str, Any] = ctypes.cast(address, ctypes.py_object).value
    return table


# The same objects for the life of the process, however often this module is loaded.
native: dict[str, Any] = _start()
"""The extension's builtins by name: explain, tune, verify and others that take operator
arguments."""


class _Table(dict[str, Function]):
    """In a library built with only some operators (DLBLAS_OPERATORS), the others can still be
    looked up, as modules do when they are imported; calling one raises the error."""

    def __missing__(self, name: str) -> Function:
        if not native["some_operators"]:
            raise KeyError(name)

        def call(*_: Any, **__: Any) -> Any:
            raise UnknownOperatorError(
                f"{name} is not in this library; it was built with DLBLAS_OPERATORS of others"
            )

        return Function(name, call, name, "", "", (), ())


FUNCTIONS: dict[str, Function] = native.setdefault("made", _Table())
"""Every callable form by name, in registry order."""


on_unknown: list[Callable[[str], None]] = []
"""Called with a name that no form has; they may raise better words than the library's."""


def add_functions(entries: tuple[Any, ...]) -> list[Function]:
    """Adds callable forms to ``FUNCTIONS``; returns those it added."""
    read = [(*entry[:5], tuple(Parameter(*p) for p in entry[5]), entry[6]) for entry in entries]
    made = [Function._make(row) for row in read]
    FUNCTIONS.update({function.name: function for function in made})
    more = {one.name: "out, stream" if one.results else "stream" for one in made}
    more.update(
        {m.name: f"dim, {more[m.name]}" for m in made if _hooks.takes_dim(m.name, m.operator)}
    )
    _hooks.besides.update(more)
    return made


if not FUNCTIONS:
    add_functions(native["functions"])
_array.make_capsule = native["capsule"]


def _no_name(given: Any) -> Exception:
    got = type(given).__name__
    said = getattr(given, "__name__", None)
    remedy = f'write "{said}"' if isinstance(said, str) else "write one"
    return ArgumentTypeError.from_library(
        f"dlblas: name has the wrong type; expected the name of an operator, got {got}; {remedy}",
        "dlblas", "name", "the name of an operator", got,
    )  # fmt: skip


def resolve(name: str) -> tuple[Function, dict[str, Any]]:
    """The form behind a name, and the arguments that the name fixes: ``matmul_leaky_relu`` is
    matmul, activation="leaky_relu"."""
    if not isinstance(name, str):
        raise _no_name(name)
    function = FUNCTIONS.get(name)
    if function is not None:
        return function, {}
    for function in FUNCTIONS.values():
        for parameter in function.params:
            for label in parameter.labels:
                if label and name == f"{function.name}_{label}":
                    return function, {parameter.name: label}
    for refuse in on_unknown:
        refuse(name)
    _native.unknown_operator(name)
    raise AssertionError("unknown_operator returned")
