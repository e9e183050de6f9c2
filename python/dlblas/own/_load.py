"""Shared objects that register through the C or C++ API: include/dlblas/implementation.hpp.

In: a file that exports ``dlblas_status dlblas_own(void)``, as DLBLAS_OWN defines it. Out: what it
registered. Its symbols resolve to this process's libdlblas.so, whichever copy it was linked
against. Read next: docs/own.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any

from .. import _native
from .._arguments import hinted
from . import _operator, _source
from ._words import refuse


@hinted
def load(path: str | os.PathLike[str]) -> None:
    """Opens the shared object ``path`` and runs its registration; it stays open until the process
    ends. Raises ArgumentError if it cannot be opened, or the error of its registration."""
    name = os.fspath(path)
    with contextlib.suppress(OSError):  # a current folder that is gone: dlopen has the words
        name = os.path.abspath(name)
    # RTLD_GLOBAL: the object must bind to this library, of which the process has only one copy.
    ctypes.CDLL(_native.library_path(), mode=ctypes.RTLD_GLOBAL)
    try:
        library = ctypes.CDLL(name)
        own: Any = library.dlblas_own
    except (OSError, AttributeError) as reason:
        raise refuse(
            "load", "path", "cannot be used", "a shared object that exports dlblas_own", reason,
            "build it as docs/own.md says",
        ) from None  # fmt: skip
    own.restype = ctypes.c_int
    _native.library().dlblas_fail(b"")  # so that what it leaves behind is its own
    status = own()
    known, words = _native.last_failure()
    if status not in (0, known) or (status and not words):
        raise refuse(
            "load", "path", "holds a dlblas_own() that failed", "0, or the status of a dlblas call",
            f"{status} ({words})" if words else f"{status} without words",
            "return what the call returned, or what dlblas_keep_error() does",
        )  # fmt: skip
    _native.check(status)
    row = {"load": name}  # a worker opens it, wherever this was called
    _source.note(name, _source.place_of(name, row), row)
    _operator.announce()
