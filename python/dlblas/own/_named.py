"""What a function finds by name: the globals that its code reads, and attributes of users' modules.

In: a function. Out: texts and values for ``_text``, which examines objects that users' files define
and takes only the names of those that libraries define. Read next: _text.py.
"""

from __future__ import annotations

import contextlib
import contextvars
import dis
import inspect
import itertools
import sys
import sysconfig
import threading
import weakref
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any


class Looking:
    """The context of one text: the function's package, which counts as the user's however it is
    installed, and `left`, the number of functions whose globals may still be followed."""

    def __init__(self, package: str) -> None:
        self.package, self.left = package, 256


looking: contextvars.ContextVar[Looking] = contextvars.ContextVar("looking")
_LIBRARIES = tuple({sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")})
# The state of objects from these modules does not affect results.
_TOOLS = {
    "logging", "threading", "_thread", "concurrent", "contextvars", "_contextvars", "queue",
    "_queue", "weakref", "_weakref", "asyncio",
}  # fmt: skip


def names_in(fn: Any) -> list[str]:
    """The globals that ``fn`` reads, except undefined ones that it sets itself."""
    reads: dict[str, bool] = {}  # whether it must be there: in a class body it may be the class's
    sets: set[str] = set()
    for code in _codes(fn):
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                reads[step.argval] = reads.get(step.argval, False) or step.opname == "LOAD_GLOBAL"
            elif step.opname == "STORE_GLOBAL":
                sets.add(step.argval)
    space = fn.__globals__
    return [n for n, must in reads.items() if n in space or (must and n not in sets)]


def found_by(fn: Any) -> Iterator[tuple[str, Any]]:
    """Yields each name with what it stands for: a value to examine, or a text. Yields nothing for a
    library's function."""
    made_for = looking.get()
    if is_library(fn) or made_for.left == 0:
        return
    made_for.left -= 1
    space = fn.__globals__
    for name in sorted(n for n in names_in(fn) if n in space and not n.startswith("__")):
        held = space[name]
        yield name, by_name(held)
        if isinstance(held, ModuleType) and not is_library(held):
            named = {name for code in _codes(fn) for name in code.co_names}
            for attribute in sorted(named & vars(held).keys()):
                yield attribute, by_name(vars(held)[attribute])


def by_name(held: Any) -> Any:
    """Its name if a library defines it or it is one of ``_TOOLS``; else the object itself."""
    kind = type(held)
    if kind.__module__ == "typing":
        return Name(repr(held))
    if kind.__module__.partition(".")[0] in _TOOLS:
        return Name(f"{kind.__module__} {kind.__qualname__}")
    defined = inspect.isfunction(held) or isinstance(held, type)
    if defined and "<locals>" not in held.__qualname__ and is_library(held):
        return Name(f"{held.__module__} {held.__qualname__}")
    return held


class Name(str):
    """A text that stands for a value."""


def is_library(what: Any) -> bool:
    """Whether it belongs to Python, dlblas or an installed package, but not the registering one."""
    module = what.__name__ if isinstance(what, ModuleType) else what.__module__
    top = str(module).partition(".")[0]
    if top == "dlblas" or top in sys.stdlib_module_names:
        return top != "__main__"
    if top == looking.get().package:
        return False
    file = getattr(sys.modules.get(str(module)), "__file__", None) or ""
    return file.startswith(_LIBRARIES)


def _codes(fn: Any) -> list[CodeType]:
    codes = [fn.__code__]
    for code in codes:
        codes += (held for held in code.co_consts if isinstance(held, CodeType))
    return codes


_serials: dict[int, tuple[Any, int]] = {}  # by id, which another object may have once this is gone
_next_serial = itertools.count()
_serial_lock = threading.RLock()


def serial_of(value: Any) -> int:
    """A number that identifies this object while it lives; a new number on each call if the object
    takes no weak reference."""
    key = id(value)

    def gone(reference: Any) -> None:
        if _serials.get(key, (None,))[0] is reference:
            del _serials[key]

    with _serial_lock:
        known = _serials.get(key)
        if known is not None and known[0]() is value:
            return known[1]
        serial = next(_next_serial)
        with contextlib.suppress(TypeError):
            _serials[key] = weakref.ref(value, gone), serial
        return serial
