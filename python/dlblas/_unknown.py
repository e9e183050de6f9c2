"""Words for a name that the package does not have. Read next: __init__.py."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ._text import nearest


def imported_by(depth: int) -> bool:
    """Whether the caller, ``depth`` frames up, runs ``from dlblas import name``: Python would throw
    an AttributeError's words away."""
    from opcode import opmap

    frame = sys._getframe(depth + 1)
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def import_error(name: str, known: Iterable[str], path: str | None) -> ImportError:
    """What Python says itself, and the nearest name."""
    where = f"cannot import name {name!r} from 'dlblas' ({path or 'unknown location'})"
    return ImportError(f"{where}{nearest(name, known)}", name="dlblas", path=path)
