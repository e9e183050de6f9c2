"""How this process's searches start a worker: the command, its module path, users' registrations.

Out: ``announce``, which gives the library the command before each search; ``serving``. The modules
are those whose import registers users' own implementations; a script with a guard is imported as
well, and CUDA text from elsewhere is passed as it is. Read next: _worker.py, which runs in the
worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import _native

ROWS, _PART, MAX_PARTS = "dlblas_worker_rows_", 100_000, 16
_PATH = "dlblas_worker_path"
IMPORTS = "dlblas_worker_imports"  # functions that come by value import what they use
# Not -m: the package itself may be in a folder that PYTHONPATH cannot name. Until sys.path is set,
# the program imports only modules that are loaded at start-up.
_PROGRAM = (
    f"import os, sys; path = os.environ.pop({_PATH!r}); "
    "sys.path[:] = dict.fromkeys([*path[1:].split(path[0]), *filter(None, sys.path)]); "
    "from dlblas import _worker; _worker.run()"
)
serving = False
"""True in a worker: a search that a user's module starts while it is imported measures there."""


searched = ""
"""The operator whose search comes next."""


def announce() -> None:
    """Tells the library how to start a worker: this interpreter, the current module path, the
    modules, script and CUDA texts that users have registered so far, and the module of torch's own
    functions if these compete with the operator that is ``searched``."""
    if serving or not sys.executable:
        return
    own = sys.modules.get("dlblas.own")  # imported by the first registration
    if not hasattr(own, "modules"):  # another thread is importing it: nothing is registered yet
        own = None
    argv = [sys.executable, "-c", _PROGRAM]
    environment = []
    modules = [] if own is None else list(own.modules())
    rivals = sys.modules.get(f"{__package__}.torch._rivals")
    if rivals is not None and (its := rivals.module_for(searched)):
        modules.append(its)
    for module in dict.fromkeys(modules):
        argv += ["--import", module]
    if own is not None:
        if script := own._source.script():
            argv += ["--script", *script, *sys.argv]
        rows = own._source.rows()
        environment += rows_out(rows)
        if any(isinstance(row, dict) and "load" not in row for row in rows):
            environment.append(f"{IMPORTS}=1")
    environment += [_PATH + "=" + _path_out(), "PYTHONSAFEPATH=1"]  # no current folder in front
    set_worker = _native.library().dlblas_set_worker
    set_worker.argtypes = [ctypes.POINTER(ctypes.c_char_p)] * 2
    _native.check(set_worker(*(_texts(words) for words in (argv, environment))))


def _path_out() -> str:
    """The current module path. PYTHONPATH cannot hold a folder with a colon in its name; here the
    first character, which occurs in no folder, separates the folders."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [package]
    for folder in sys.path:
        with contextlib.suppress(OSError):  # relative to a current folder that is gone
            if isinstance(folder, str) and "\0" not in folder:  # PathFinder skips the others, too
                folders.append(os.path.abspath(folder))
    text = "".join(folders)
    mark = next(mark for mark in map(chr, range(1, 0x3000)) if mark not in text)
    return mark + mark.join(dict.fromkeys(folders))


def _texts(words: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [os.fsencode(word) for word in words]
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def rows_out(rows: Sequence[Any]) -> list[str]:
    """What a worker registers without a module, as environment variables, in parts: one variable
    has room for 128 KiB."""
    import json  # which `import dlblas` does not bring

    text = json.dumps(rows) if rows else ""
    parts = range(0, len(text), _PART)
    return [f"{ROWS}{i}={text[begin : begin + _PART]}" for i, begin in enumerate(parts)]
