"""Sends functions to a worker by value: from notebooks, shells, scripts without a guard.

In: a user's function or Triton kernel, and its registration. Out: ``parcel``, a JSON value. None if
the texts of the function and of those that it calls are not enough: one of them closes over
something, or uses a global that is neither a module, nor defined by one, nor a plain value
(cloudpickle, if installed, sends such functions). ``Parcel`` rebuilds it if one of these globals
has changed since. ``unpack`` registers it in the worker, under the digest that it has here. Read
next: _register.py, ../_worker.py.
"""

from __future__ import annotations

import ast
import base64
import builtins
import contextlib
import functools
import inspect
import itertools
import linecache
import operator
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from ._compiled import attributes, compiled
from ._named import names_in
from ._text import SCRIPT, is_kernel

sent = ""  # while a worker registers what came: its digest
_PLAIN = (type(None), bool, int, float, str)
_MAX_NAMES = 256  # globals of one function and of all that it calls
_SCRIPTS = ("__main__", SCRIPT)  # of which a worker has another one, or none


def parcel(fn: Any, digest: str | None, **registered: Any) -> dict[str, Any] | None:
    """``registered``: the arguments of ``register`` that the worker repeats."""
    grid = registered.get("grid")
    at = _lambda(grid) if callable(grid) else None
    if at is not None:
        registered["grid"] = None
    if digest is None or not _is_plain(registered):
        return None
    if is_kernel(fn):
        body = _whole(_kernel(fn, getattr(_below(fn), "__name__", "")))
        body = body and {**body, "grid": at}
    else:
        body = (_by_text(fn) or _by_pickle(fn)) if inspect.isfunction(fn) else None
    return body and {**body, "digest": digest, "registered": registered}


class Parcel:
    """The up-to-date parcel of a function: in a notebook, what it calls may be redefined."""

    def __init__(self, fn: Any, digest: str | None, **registered: Any) -> None:
        self._make = functools.partial(parcel, fn, digest, **registered)
        made_of = compiled(fn)
        inner = getattr(_below(fn), "fn", None) if is_kernel(fn) else made_of and made_of.fn
        self._functions = (inner or fn, registered.get("grid"))
        self._row = self._make()
        self._held = self._globals()

    def row(self) -> dict[str, Any] | None:
        now = self._globals()
        if len(now) != len(self._held) or not all(map(operator.is_, now, self._held)):
            self._row = self._make()
            self._held = self._globals()
        return self._row

    def _globals(self) -> list[Any]:
        """The current values of all names in the row."""
        held: list[Any] = []
        row = self._row or {}
        for fn, part in zip(self._functions, (row, row.get("grid") or {}), strict=True):
            space = getattr(fn, "__globals__", {})
            kinds = (part.get(kind, {}) for kind in ("values", "modules", "constants", "imported"))
            helpers = [helper["name"] for helper in part.get("helpers", ())]
            held += (space.get(name) for name in (*itertools.chain(*kinds), *helpers))
        return held


def unpack(came: dict[str, Any], register: Callable[..., Any]) -> None:
    """In a worker: registers a function. One that cannot be rebuilt is skipped: the caller measures
    it."""
    global sent
    sent = came["digest"]
    with contextlib.suppress(Exception):
        given = dict(came["registered"])
        if came.get("grid"):
            given["grid"] = _named(came["grid"])["grid"]
        register(fn=_made(came), **given)
    sent = ""


def _made(came: dict[str, Any]) -> Any:
    if "pickle" in came:
        import pickle

        return pickle.loads(base64.b64decode(came["pickle"]))
    return _named(came)[came["name"]]


def _named(came: dict[str, Any]) -> dict[str, Any]:
    """The names that its text defines, and the globals that it uses, including functions."""
    names: dict[str, Any] = dict(came["values"])
    names.update((name, import_module(module)) for name, module in came["modules"].items())
    for name, (module, theirs) in came["imported"].items():
        names[name] = getattr(import_module(module), theirs)
    if came["constants"]:
        constant = import_module("triton.language").constexpr
        names.update((name, constant(value)) for name, value in came["constants"].items())
    for part in (*came["helpers"], came):
        _define(part, names)
    return names


def _define(part: dict[str, Any], names: dict[str, Any]) -> None:
    file = f"<{part['name']}>"
    lines = part["text"].splitlines(keepends=True)
    # Triton reads the source of the functions that it compiles.
    linecache.cache[file] = (len(part["text"]), None, lines, file)
    exec(compile(part["text"], file, "exec"), names)
    fn = names[part["name"]]
    if "defaults" in part:
        fn.__defaults__ = part["defaults"] and tuple(part["defaults"])
        fn.__kwdefaults__ = part["kwdefaults"]
    if "compile" in part:
        names[part["name"]] = import_module("torch").compile(fn, **part["compile"])
    if "kernel" in part:
        names[part["name"]] = import_module("triton").jit(fn)


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(held) for key, held in value.items())
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


class _Part(NamedTuple):
    """One function: the row from which a worker rebuilds it, and the globals that it names."""

    row: dict[str, Any]
    names: list[str]
    space: dict[str, Any]


def _by_text(fn: Any) -> dict[str, Any] | None:
    """Its source and the globals that it names, or None."""
    return _whole(_function(fn, fn.__name__))


def _whole(part: _Part | None) -> dict[str, Any] | None:
    used = part and _used(part.space, part.names, part.row["name"])
    return {**part.row, **used} if part and used else None


def _function(fn: Any, name: str) -> _Part | None:
    """The function under this name, without decorators and annotations. For a result of
    torch.compile: the original function, and the options to compile it with in the worker."""
    if (again := compiled(fn)) is not None:
        plain = set(attributes(fn)) <= {"__wrapped__"} and _is_plain(again.options)
        whole = inspect.isfunction(again.fn) and again.options and plain
        part = _function(again.fn, name) if whole else None
        return part and part._replace(row={**part.row, "compile": again.options})
    if fn.__closure__ or vars(fn) or not _is_plain([fn.__defaults__, fn.__kwdefaults__ or {}]):
        return None
    made = _definition(fn.__code__)
    if made is None or not all(map(_registers, made.decorator_list)):
        return None
    made.name, made.decorator_list, made.returns = name, [], None
    for node in ast.walk(made):
        if isinstance(node, ast.arg):
            node.annotation = None
    every = made.args
    every.defaults = [ast.Constant(None) for _ in every.defaults]  # set again, as values
    every.kw_defaults = [node and ast.Constant(None) for node in every.kw_defaults]
    row = {
        "text": ast.unparse(ast.fix_missing_locations(made)), "name": name,
        "defaults": fn.__defaults__, "kwdefaults": fn.__kwdefaults__,
    }  # fmt: skip
    return _Part(row, names_in(fn), fn.__globals__)


def _kernel(kernel: Any, name: str) -> _Part | None:
    """A plain @triton.jit kernel. Annotations mark constants, so they stay; decorators are dropped,
    because the configurations of an @triton.autotune are already in the space."""
    fn = getattr(_below(kernel), "fn", None)
    if not inspect.isfunction(fn) or fn.__closure__ or fn.__defaults__ or fn.__kwdefaults__:
        return None
    made = _definition(fn)
    if made is None or not all(map(_compiles, made.decorator_list)):
        return None
    made.name, made.decorator_list = name, []
    noted = [node.annotation for node in ast.walk(made) if isinstance(node, ast.arg)]
    named = {
        node.id for note in noted if note for node in ast.walk(note) if isinstance(node, ast.Name)
    }
    text = ast.unparse(ast.fix_missing_locations(made))
    row = {"text": text, "name": name, "kernel": True}
    return _Part(row, [*names_in(fn), *sorted(named)], fn.__globals__)


def _below(kernel: Any) -> Any:
    return getattr(kernel, "fn", None) if hasattr(kernel, "configs") else kernel


def _definition(what: Any) -> ast.FunctionDef | None:
    try:
        (made,) = ast.parse(textwrap.dedent(inspect.getsource(what))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return made if isinstance(made, ast.FunctionDef) else None


def _used(space: dict[str, Any], names: Iterable[str], own: str) -> dict[str, Any] | None:
    """The globals of these names: plain values, modules, Triton's constants, objects that other
    modules define, and functions and kernels of the same module with the globals that these name.
    ``own``: the name that the text itself binds."""
    used: dict[str, Any] = {"values": {}, "modules": {}, "constants": {}, "imported": {}}
    helpers: list[dict[str, Any]] = []
    left, seen = list(names), {own}
    while left:
        name = left.pop()
        if name in seen or (name not in space and hasattr(builtins, name)):
            continue
        seen.add(name)
        if name not in space or len(seen) > _MAX_NAMES:  # it may be defined further below
            return None
        held = space[name]
        if isinstance(held, ModuleType):
            used["modules"][name] = held.__name__
        elif type(held) in _PLAIN:
            used["values"][name] = held
        elif type(held).__name__ == "constexpr" and type(getattr(held, "value", space)) in _PLAIN:
            used["constants"][name] = held.value
        elif found := _found_in(held, space):
            used["imported"][name] = found
        else:
            kernel = is_kernel(held) and not hasattr(held, "configs")
            whole = _kernel if kernel else _function if inspect.isfunction(held) else None
            part = whole(held, name) if whole else None
            if part is None or part.space is not space:
                return None
            helpers.append(part.row)
            left += part.names
    return {**used, "helpers": helpers}


def _found_in(held: Any, space: dict[str, Any]) -> tuple[str, str] | None:
    """A function or class that another module defines: the module, and the name there."""
    module, name = getattr(held, "__module__", None), getattr(held, "__qualname__", None)
    there = sys.modules.get(module) if type(module) is str and module not in _SCRIPTS else None
    if there is None or type(name) is not str or vars(there) is space:
        return None
    return (str(module), name) if vars(there).get(name) is held else None


def _compiles(decorator: ast.expr) -> bool:
    """``@triton.jit``, ``@triton.autotune(…)`` or ``@dlblas.register(…)``."""
    if isinstance(decorator, ast.Call):
        return ast.unparse(decorator.func).rpartition(".")[2] in ("autotune", "register")
    return ast.unparse(decorator).rpartition(".")[2] == "jit"


def _lambda(fn: Any) -> dict[str, Any] | None:
    """A grid: the text of a function, or of a lambda, which is located in its source lines."""
    if not inspect.isfunction(fn) or fn.__closure__ or fn.__defaults__ or fn.__kwdefaults__:
        return None
    if fn.__name__ != "<lambda>":
        made = _by_text(fn)
        return made and {**made, "text": f"{made['text']}\ngrid = {made['name']}\n"}
    try:
        lines, first = inspect.findsource(fn.__code__)
    except OSError:
        return None
    text = "".join(lines[first : first + 20])
    begins = _lambdas(text, len(lines[first]))
    found = {made for made in begins if _alike(made, fn.__code__)}
    used = _used(fn.__globals__, names_in(fn), "grid")
    if len(found) != 1 or used is None:  # of two, nothing says which one it is
        return None
    return {"text": f"grid = {found.pop()}\n", "name": "grid", **used}


def _lambdas(text: str, first: int) -> Iterator[str]:
    """Yields each lambda that begins in the first line, as the longest text that parses as one; the
    lines need not be whole statements."""
    at = text.find("lambda")
    while 0 <= at < first:
        for end in range(min(len(text), at + 1000), at, -1):
            with contextlib.suppress(SyntaxError, ValueError):
                made = ast.parse(f"({text[at:end]})", mode="eval").body
                if isinstance(made, ast.Lambda):
                    yield ast.unparse(made)
                    break
        at = text.find("lambda", at + 1)


def _alike(text: str, code: CodeType) -> bool:
    """Compares names and constants: byte code also depends on which modules the file imports."""
    (made,) = (held for held in compile(text, "", "eval").co_consts if isinstance(held, CodeType))
    return (made.co_names, made.co_varnames, made.co_consts) == (
        code.co_names, code.co_varnames, code.co_consts
    )  # fmt: skip


def _registers(decorator: ast.expr) -> bool:
    """``@dlblas.register(…)`` or ``@torch.compile``: others may have made a different function."""
    if isinstance(decorator, ast.Call):
        return ast.unparse(decorator.func).rpartition(".")[2] in ("register", "compile")
    return ast.unparse(decorator) == "torch.compile"


def _by_pickle(fn: Any) -> dict[str, Any] | None:
    if find_spec("cloudpickle") is None:
        return None
    try:
        made = import_module("cloudpickle").dumps(fn)
    except Exception:  # of whatever it closes over
        return None
    return {"pickle": base64.b64encode(made).decode()}
