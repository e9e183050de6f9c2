"""What an implementation is made of: the hash that its records carry, and the module whose import
registers it again.

A changed hash makes that candidate's records stale, and nobody else's. Read next: _register.py.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import inspect
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from types import BuiltinFunctionType, ModuleType
from typing import Any, NamedTuple

SCRIPT = "__dlblas_script__"  # what a worker calls the script that its caller runs as __main__
_PLAIN = (bool, int, float, complex, str, bytes)
_PROCESS = secrets.token_hex(8)  # in no other process's text

_modules: dict[str, set[str]] = {}  # in order of registration: what each has registered
_rows: dict[str, list[Any]] = {}  # what needs no module: CUDA text, as the library takes it
_script: list[str] = []  # file and package of the script in _modules["__main__"]
_local: set[str] = set()  # what only this process can register
_MOST_BYTES = 1 << 19  # of rows: an environment has room for 2 MiB


def digest(*parts: Any) -> str:
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def text_of(fn: Callable[..., Any]) -> str:
    """All that the function is made of and that can be read: its source (where there is none, in a
    shell without history, its byte code), what it wraps, its defaults, what it closes over, the
    arguments of a partial, the state of an object. What it calls is not looked into: ``version=``
    is for that. A value that has no lasting text (a tensor, an open file) makes the hash this
    process's own: such a candidate is measured anew in the next."""
    return "\0".join(_words(fn, set()))


def made_of(fn: Callable[..., Any], *texts: str) -> None:
    """Of a function of this package that calls a user's: these, and not itself, are its text."""
    fn.__dict__["_dlblas_text"] = "\0".join(texts)


def _words(value: Any, seen: set[int]) -> Iterator[str]:
    if value is None or isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
        return
    if id(value) in seen:
        yield "again"
        return
    seen.add(id(value))
    yield type(value).__qualname__
    for part in _parts(value):
        if isinstance(part, str):
            yield part
        else:
            yield from _words(part.value, seen)


class _Part(NamedTuple):
    value: Any  # looked into, too


def _parts(value: Any) -> list[str | _Part]:
    """Texts, and the values that belong to a value."""
    if isinstance(value, dict):
        return [_Part(part) for item in value.items() for part in item]
    if isinstance(value, (list, tuple)):
        return [_Part(part) for part in value]
    if isinstance(value, functools.partial):
        return [_Part(value.func), _Part(value.args), _Part(value.keywords)]
    if inspect.ismethod(value):
        return [_Part(value.__func__), _Part(value.__self__)]
    if inspect.isfunction(value):
        if "_dlblas_text" in vars(value):
            return [str(vars(value)["_dlblas_text"])]
        wrapped = getattr(value, "__wrapped__", None)
        held = (wrapped, value.__defaults__, value.__kwdefaults__, _cells(value))
        return [_code_of(value), *map(_Part, held)]
    if isinstance(value, (type, ModuleType, BuiltinFunctionType)):
        return [f"{module_of(value)} {value.__name__}"]
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return [f"{value.dtype} {value.shape}", hashlib.sha256(value.tobytes()).hexdigest()]
    if type(value).__name__ == "dtype" or isinstance(value, Enum):
        return [repr(value)]
    if inspect.isfunction(vars(type(value)).get("__call__")) and hasattr(value, "__dict__"):
        return [_code_of(type(value)), _Part(vars(value))]
    return [_PROCESS]


def _cells(fn: Any) -> list[Any]:
    """What a function closes over; a name that has no value yet holds nothing."""
    found = []
    for cell in fn.__closure__ or ():
        with contextlib.suppress(ValueError):
            found.append(cell.cell_contents)
    return found


def _code_of(what: Any) -> str:
    try:
        return inspect.getsource(what)
    except (OSError, TypeError):
        code = getattr(what, "__code__", None)
        return f"{code.co_code!r}{code.co_consts!r}{code.co_names!r}" if code else _PROCESS


def module_of(value: Any) -> str:
    """The same in a worker, where a script is imported under another name."""
    name = str(getattr(value, "__module__", ""))
    return "__main__" if name == SCRIPT else name


def registering_module() -> str | None:
    """The module whose body is running and led here; None for what no import would repeat: a
    function called later, a shell, a script that no worker may import."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_name == "<module>" and not name.startswith("dlblas."):
            if name == "__main__":
                return name if _repeatable(frame.f_globals, frame.f_lineno) else None
            spec = getattr(sys.modules.get(name), "__spec__", None)
            return name if spec is not None else None
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _repeatable(namespace: dict[str, Any], line: int) -> bool:
    """Whether a worker may import the script that runs, as a process of multiprocessing would: it
    has ``if __name__ == "__main__":``, and this line is not below it."""
    main = sys.modules.get("__main__")
    if main is None or vars(main) is not namespace:
        return False
    file = str(namespace.get("__file__") or "")
    guards = _guards(file)
    if not guards or any(line in guard for guard in guards):
        return False
    _script[:] = [os.path.abspath(file), str(namespace.get("__package__") or "")]
    return True


@functools.cache
def _guards(file: str) -> tuple[range, ...]:
    try:
        with open(file, "rb") as script:
            body = ast.parse(script.read()).body
    except (OSError, SyntaxError, ValueError):
        return ()
    asked = ast.dump(ast.parse("__name__ == '__main__'", mode="eval").body)
    return tuple(
        range(part.lineno, (part.end_lineno or part.lineno) + 1)
        for part in body
        if isinstance(part, ast.If) and ast.dump(part.test) == asked
    )


def place_of(what: str, row: list[Any] | None = None) -> str | None:
    """What registers ``what`` anew in a worker: a module's name; "" for the ``row`` itself, which
    needs none; None where only this process can: a script without a guard, a closure."""
    name = registering_module()
    if name is None and row is not None and what.partition(".")[0] not in _local and _fits(row):
        return ""
    return name


def note(what: str, place: str | None, row: list[Any] | None = None) -> None:
    """It is registered, from there."""
    forget(what)
    if place:
        _modules.setdefault(place, set()).add(what)
    elif place == "" and row is not None:
        _rows[what] = row
    else:
        _local.add(what)


def _fits(row: list[Any]) -> bool:
    return len(json.dumps([*_rows.values(), row])) <= _MOST_BYTES


def forget(what: str) -> None:
    """It was taken away, or comes from elsewhere now."""
    _local.discard(what)
    _rows.pop(what, None)
    for name, registered in list(_modules.items()):
        registered.discard(what)
        if not registered:
            del _modules[name]


def modules() -> list[str]:
    """Modules whose import registers what is registered now: what a worker process imports."""
    return [name for name in _modules if name != "__main__"]


def script() -> list[str]:
    """File and package of the script whose import registers something; else empty."""
    return _script if "__main__" in _modules else []


def rows() -> list[list[Any]]:
    """What a worker registers without a module."""
    return list(_rows.values())
