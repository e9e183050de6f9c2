"""Functions that travel to a worker by value: from notebooks, shells, scripts without a guard.

In: a user's function or Triton kernel, and how it was registered. Out: ``parcel``, a JSON value, or
None where it is more than its text: it closes over something, or uses globals that are neither
modules nor plain values (cloudpickle takes functions of these along where it is installed).
``unpack`` registers it in the worker, under the digest that it has here. Read next: _register.py,
../_worker.py.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any

from ._compiled import attributes, compiled
from ._text import is_kernel

sent = ""  # while a worker registers what came: its digest
_PLAIN = (type(None), bool, int, float, str)


def parcel(fn: Any, digest: str | None, **registered: Any) -> dict[str, Any] | None:
    """``registered``: the arguments of ``register`` that are not left out."""
    grid = registered.get("grid")
    at = _lambda(grid) if callable(grid) else None
    if at is not None:
        registered["grid"] = None
    if digest is None or not _is_plain(registered):
        return None
    if is_kernel(fn):
        body = _kernel(fn)
        body = body and {**body, "grid": at}
    else:
        body = (_by_text(fn) or _by_pickle(fn)) if inspect.isfunction(fn) else None
    return body and {**body, "digest": digest, "registered": registered}


def unpack(came: dict[str, Any], register: Callable[..., Any]) -> None:
    """In a worker. One that cannot be made here is not there: the caller measures it."""
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
    fn = _named(came)[came["name"]]
    if came.get("kernel"):
        return import_module("triton").jit(fn)
    fn.__defaults__ = came["defaults"] and tuple(came["defaults"])
    fn.__kwdefaults__ = came["kwdefaults"]
    return import_module("torch").compile(fn, **came["compile"]) if "compile" in came else fn


def _named(came: dict[str, Any]) -> dict[str, Any]:
    """What its text defines, with the globals that it uses."""
    names: dict[str, Any] = dict(came["values"])
    names.update((name, import_module(module)) for name, module in came["modules"].items())
    if came.get("constants"):
        constant = import_module("triton.language").constexpr
        names.update((name, constant(value)) for name, value in came["constants"].items())
    file = f"<{came['name']}>"
    lines = came["text"].splitlines(keepends=True)
    # Triton asks for the source of what it compiles.
    linecache.cache[file] = (len(came["text"]), None, lines, file)
    exec(compile(came["text"], file, "exec"), names)
    return names


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(held) for key, held in value.items())
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def _by_text(fn: Any) -> dict[str, Any] | None:
    """Its source, without decorators and annotations, and the globals that it names; of what
    torch.compile made, those of the original, and how to compile it there."""
    if (again := compiled(fn)) is not None:
        plain = set(attributes(fn)) <= {"__wrapped__"} and _is_plain(again.options)
        whole = inspect.isfunction(again.fn) and again.options and plain
        made_of = _by_text(again.fn) if whole else None
        return made_of and {**made_of, "compile": again.options}
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
    used = _used(fn, _names_in(fn.__code__))
    return used and {
        "text": ast.unparse(ast.fix_missing_locations(made)), "name": fn.__name__, **used,
        "defaults": fn.__defaults__, "kwdefaults": fn.__kwdefaults__,
    }  # fmt: skip


def _used(fn: Any, names: Iterable[str]) -> dict[str, Any] | None:
    """The globals of these names: plain values, modules, and constants of Triton's."""
    values, modules, constants = {}, {}, {}
    for name in names:
        held = fn.__globals__.get(name, fn)
        if isinstance(held, ModuleType):
            modules[name] = held.__name__
        elif type(held) in _PLAIN:
            values[name] = held
        elif type(held).__name__ == "constexpr" and type(getattr(held, "value", fn)) in _PLAIN:
            constants[name] = held.value
        elif name in fn.__globals__:
            return None
    return {"values": values, "modules": modules, "constants": constants}


def _kernel(kernel: Any) -> dict[str, Any] | None:
    """A plain @triton.jit kernel: annotations say what is constant, so they stay; decorators go,
    and the configurations of an @triton.autotune are the space already."""
    kernel = getattr(kernel, "fn", None) if hasattr(kernel, "configs") else kernel
    fn = getattr(kernel, "fn", None)
    if not inspect.isfunction(fn) or fn.__closure__ or fn.__defaults__ or fn.__kwdefaults__:
        return None
    try:
        (made,) = ast.parse(textwrap.dedent(inspect.getsource(fn))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if not isinstance(made, ast.FunctionDef) or not all(map(_compiles, made.decorator_list)):
        return None
    made.decorator_list = []
    noted = [node.annotation for node in ast.walk(made) if isinstance(node, ast.arg)]
    named = {
        node.id for note in noted if note for node in ast.walk(note) if isinstance(node, ast.Name)
    }
    used = _used(fn, [*_names_in(fn.__code__), *sorted(named)])
    text = ast.unparse(ast.fix_missing_locations(made))
    return used and {"text": text, "name": fn.__name__, "kernel": True, **used}


def _compiles(decorator: ast.expr) -> bool:
    """``@triton.jit``, ``@triton.autotune(…)`` or ``@dlblas.register(…)``."""
    if isinstance(decorator, ast.Call):
        return ast.unparse(decorator.func).rpartition(".")[2] in ("autotune", "register")
    return ast.unparse(decorator).rpartition(".")[2] == "jit"


def _lambda(fn: Any) -> dict[str, Any] | None:
    """A grid: the text of a lambda, found in the lines that it stands in, or of a function."""
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
    used = _used(fn, _names_in(fn.__code__))
    if len(found) != 1 or used is None:  # of two, nothing says which one it is
        return None
    return {"text": f"grid = {found.pop()}\n", "name": "grid", **used}


def _lambdas(text: str, first: int) -> Iterator[str]:
    """Each lambda that begins in the first line, of lines that need not be whole statements: the
    longest text that is one."""
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
    """By names and constants: byte code is another one where a module was imported in the file."""
    (made,) = (held for held in compile(text, "", "eval").co_consts if isinstance(held, CodeType))
    return (made.co_names, made.co_varnames, made.co_consts) == (
        code.co_names, code.co_varnames, code.co_consts
    )  # fmt: skip


def _registers(decorator: ast.expr) -> bool:
    """``@dlblas.register(…)``, ``@torch.compile``: anything else may have made another function."""
    if isinstance(decorator, ast.Call):
        return ast.unparse(decorator.func).rpartition(".")[2] in ("register", "compile")
    return ast.unparse(decorator) == "torch.compile"


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
