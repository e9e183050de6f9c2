"""Identifies an implementation: the hash that its records carry, and the module whose import
registers it again.

A changed hash makes only that candidate's records stale. Read next: _text.py, _register.py.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from ._text import SCRIPT as SCRIPT
from ._text import made_of as made_of
from ._text import module_of as module_of
from ._text import text_of as text_of

_modules: dict[str, set[str]] = {}  # in order of registration: what each has registered
_rows: dict[str, Any] = {}  # what needs no module: CUDA text, as the library takes it; libraries
_again: dict[str, Callable[[], Any]] = {}  # for functions: the row as it is when it is sent
_script: list[str] = []  # file and package of the script in _modules["__main__"]
_local: set[str] = set()  # what only this process can register
_lock = threading.RLock()  # of changes to these; readers copy at once
_MAX_BYTES = 1 << 19  # of rows: an environment has room for 2 MiB


def digest(*parts: Any) -> str:
    words = "".join(f"{len(word)}:{word}" for word in map(str, parts))
    return hashlib.sha256(words.encode(errors="surrogatepass")).hexdigest()[:16]


def registering_module() -> str | None:
    """The module whose top-level code is making this call. None if no import would repeat the call:
    in a function called later, a shell, or a script that a worker may not import."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        own = name.startswith("dlblas.")
        if frame.f_code.co_name == "<module>" and not own:
            if name == "__main__":
                return name if _repeatable(frame.f_globals, frame.f_lineno) else None
            spec = getattr(sys.modules.get(name), "__spec__", None)
            return name if spec is not None else None
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _repeatable(namespace: dict[str, Any], line: int) -> bool:
    """Whether a worker may import the running script, as multiprocessing would: it has an
    ``if __name__ == "__main__":``, and this line is not inside that block."""
    main = sys.modules.get("__main__")
    if main is None or vars(main) is not namespace:
        return False
    file = str(namespace.get("__file__") or "")
    guards = _guards(file)
    if not guards or any(line in guard for guard in guards):
        return False
    try:
        _script[:] = [os.path.abspath(file), str(namespace.get("__package__") or "")]
    except OSError:  # relative to a current folder that is gone
        return False
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


def place_of(what: str, row: Any = None) -> str | None:
    """How a worker registers ``what`` again: a module's name; "" if the ``row`` alone is enough;
    None if only this process can (a script without a guard, a closure)."""
    name = registering_module()
    if name is None and row is not None and what.partition(".")[0] not in _local and _fits(row):
        return ""
    return name


def note(
    what: str, place: str | None, row: Any = None, again: Callable[[], Any] | None = None
) -> None:
    """Records that ``place`` registers ``what``. ``again`` returns the row as of the time of
    sending, or None."""
    with _lock:
        forget(what)
        if place:
            _modules.setdefault(place, set()).add(what)
        elif place == "" and row is not None:
            _rows[what] = row
            if again is not None:
                _again[what] = again
        else:
            _local.add(what)


def _fits(row: Any) -> bool:
    return len(json.dumps([*_rows.values(), row])) <= _MAX_BYTES


def forget(what: str) -> None:
    """Drops ``what``: it was unregistered, or is being registered from elsewhere."""
    with _lock:
        _local.discard(what)
        _rows.pop(what, None)
        _again.pop(what, None)
        for name, registered in list(_modules.items()):
            registered.discard(what)
            if not registered:
                del _modules[name]


def registered() -> set[str]:
    """Everything that is registered now: operators by name, implementations as ``op.name``."""
    with _lock:
        return {*_local, *_rows, *(what for names in _modules.values() for what in names)}


def modules() -> list[str]:
    """Modules whose import repeats the current registrations; a worker process imports them."""
    return [name for name in list(_modules) if name != "__main__"]


def script() -> list[str]:
    """File and package of the script whose import registers something; empty if there is none."""
    return _script if "__main__" in _modules else []


def rows() -> list[Any]:
    """The rows that a worker registers without importing a module."""
    with _lock:
        now = [_again[what]() if what in _again else row for what, row in _rows.items()]
    return [row for row in now if row is not None]
