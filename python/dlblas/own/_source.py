"""What an implementation is made of: the hash that its records carry, and the module whose import
registers it again.

A changed hash makes that candidate's records stale, and nobody else's. Read next: _register.py.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

_modules: dict[str, set[str]] = {}  # in order of registration: what each has registered


def digest(*parts: Any) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def text_of(fn: Callable[..., Any]) -> str:
    """The function's source; where there is none (a shell without history), its byte code. What it
    calls is not looked into: ``version=`` is for that."""
    plain = inspect.unwrap(fn)
    plain = getattr(plain, "func", plain)  # of a partial
    try:
        return inspect.getsource(plain)
    except (OSError, TypeError):
        code = getattr(plain, "__code__", None)
        return f"{code.co_code!r}{code.co_consts!r}{code.co_names!r}" if code else repr(plain)


def registering_module() -> str | None:
    """The module whose body is running and led here; None in ``__main__`` and in functions called
    later, which no import would repeat."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_name == "<module>" and not name.startswith("dlblas."):
            spec = getattr(sys.modules.get(name), "__spec__", None)
            return name if spec is not None and name != "__main__" else None
        frame = frame.f_back  # type: ignore[assignment]
    return None


def note_module(what: str) -> bool:
    """Remembers who registers ``what`` now; False where only this process can: a script, a
    closure."""
    forget(what)
    name = registering_module()
    if name is not None:
        _modules.setdefault(name, set()).add(what)
    return name is not None


def forget(what: str) -> None:
    """It was taken away, or comes from elsewhere now."""
    for name, registered in list(_modules.items()):
        registered.discard(what)
        if not registered:
            del _modules[name]


def modules() -> list[str]:
    """Modules whose import registers what is registered now: what a worker process imports."""
    return list(_modules)
