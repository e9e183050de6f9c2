"""Functions that travel to a worker by value: from notebooks, shells, scripts without a guard.

In: a user's function and how it was registered. Out: ``parcel``, a JSON value, or None where the
function is more than its text: it closes over something, or uses globals that are neither modules
nor plain values (cloudpickle takes these along where it is installed). ``unpack`` registers it in
the worker, under the digest that it has here. Read next: _register.py, ../_worker.py.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any

sent = ""  # while a worker registers what came: its digest
_PLAIN = (type(None), bool, int, float, str)


def parcel(fn: Any, digest: str | None, **registered: Any) -> dict[str, Any] | None:
    """``registered``: the arguments of ``register`` that are not left out."""
    if digest is None or not inspect.isfunction(fn) or not _is_plain(registered):
        return None
    body = _by_text(fn) or _by_pickle(fn)
    return body and {**body, "digest": digest, "registered": registered}


def unpack(came: dict[str, Any], register: Callable[..., Any]) -> None:
    """In a worker. One that cannot be made here is not there: the caller measures it."""
    global sent
    sent = came["digest"]
    with contextlib.suppress(Exception):
        register(fn=_made(came), **came["registered"])
    sent = ""


def _made(came: dict[str, Any]) -> Any:
    if "pickle" in came:
        import pickle

        return pickle.loads(base64.b64decode(came["pickle"]))
    names: dict[str, Any] = dict(came["values"])
    names.update((name, import_module(module)) for name, module in came["modules"].items())
    exec(compile(came["text"], f"<{came['name']}>", "exec"), names)
    fn = names[came["name"]]
    fn.__defaults__ = came["defaults"] and tuple(came["defaults"])
    fn.__kwdefaults__ = came["kwdefaults"]
    return fn


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(held) for key, held in value.items())
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def _by_text(fn: Any) -> dict[str, Any] | None:
    """Its source, without decorators and annotations, and the globals that it names."""
    if fn.__closure__ or vars(fn) or not _is_plain([fn.__defaults__, fn.__kwdefaults__ or {}]):
        return None
    try:
        (made,) = ast.parse(textwrap.dedent(inspect.getsource(fn.__code__))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if not isinstance(made, ast.FunctionDef) or not all(map(_registers, made.decorator_list)):
        return None
    made.decorator_list, made.returns = [], None
    for node in ast.walk(made):
        if isinstance(node, ast.arg):
            node.annotation = None
    every = made.args
    every.defaults = [ast.Constant(None) for _ in every.defaults]  # set again, as values
    every.kw_defaults = [node and ast.Constant(None) for node in every.kw_defaults]
    values, modules = {}, {}
    for name in _names_in(fn.__code__):
        held = fn.__globals__.get(name, fn)
        if isinstance(held, ModuleType):
            modules[name] = held.__name__
        elif type(held) in _PLAIN:
            values[name] = held
        elif name in fn.__globals__:
            return None
    return {
        "text": ast.unparse(ast.fix_missing_locations(made)), "name": fn.__name__,
        "values": values, "modules": modules,
        "defaults": fn.__defaults__, "kwdefaults": fn.__kwdefaults__,
    }  # fmt: skip


def _registers(decorator: ast.expr) -> bool:
    """``@dlblas.register(…)``: anything else may have made another function of it."""
    called = decorator.func if isinstance(decorator, ast.Call) else None
    return ast.unparse(called).rpartition(".")[2] == "register" if called else False


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for held in code.co_consts:
        if isinstance(held, CodeType):
            yield from _names_in(held)


def _by_pickle(fn: Any) -> dict[str, Any] | None:
    if find_spec("cloudpickle") is None:
        return None
    try:
        made = import_module("cloudpickle").dumps(fn)
    except Exception:  # of whatever it closes over
        return None
    return {"pickle": base64.b64encode(made).decode()}
