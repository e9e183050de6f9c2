"""Errors for names that the package or one of its modules does not have. Read next: __init__.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import NoReturn

from ._text import nearest


def imported_by(depth: int) -> bool:
    """Whether the caller, ``depth`` frames up, runs ``from dlblas import name``: there Python would
    discard the text of an AttributeError."""
    from opcode import opmap

    frame = sys._getframe(depth + 1)
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def public(module: str) -> list[str]:
    """The names that may be meant: the module's public ones, and for the package also ``nn``'s:
    ``nn.RMSNorm``."""
    here = sys.modules[module]
    names = list(vars(here).get("__all__") or dir(here))  # not getattr: it would ask again
    if module == __package__:
        names += [f"nn.{name}" for name in import_module(f"{module}.nn").__all__]
    return names


def _hint(name: str, known: Iterable[str], module: str) -> str:
    if module == __package__ and name in import_module(f"{module}.errors").__all__:
        return f"; did you mean {module}.errors.{name}?"
    return nearest(name, known)


def import_error(
    name: str, known: Iterable[str], path: str | None, module: str = "dlblas"
) -> ImportError:
    """Python's own message, and the nearest name."""
    where = f"cannot import name {name!r} from {module!r} ({path or 'unknown location'})"
    return ImportError(f"{where}{_hint(name, known, module)}", name=module, path=path)


def refuse(module: str, name: str, depth: int = 1) -> NoReturn:
    """Raises the error of a module's ``__getattr__``, ``depth`` frames up, with the nearest public
    name."""
    known: list[str] = []
    if not name.startswith("__"):  # as import machinery and tools ask for
        known = public(module)
        if imported_by(depth + 1):
            path = vars(sys.modules[module]).get("__file__")
            raise import_error(name, known, path, module)
    hint = _hint(name, known, module)
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def of(module: str) -> Callable[[str], NoReturn]:
    """``__getattr__`` of a module that defines all its names at import."""

    def getattr_of(name: str) -> NoReturn:
        refuse(module, name)

    return getattr_of
