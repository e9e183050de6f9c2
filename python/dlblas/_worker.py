"""The process that candidates are measured in: ``python -m dlblas._worker --import MODULE …``.

The library starts it (socket under descriptor 3, standard error captured) with the command that
``announce`` names, serves one search in it, and kills it. The modules are those whose import
registers users' own implementations. Read next: bindings/c/worker.cpp, docs/tuning.md.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence

from . import _native

_SOCKET = 3
# In a worker: what a user's module tunes while it is imported is measured where it is.
serving = False


def announce() -> None:
    """Tells the library how a worker starts now: with this interpreter, where modules are found
    today, and with what users have registered until now."""
    if serving or not sys.executable:
        return
    own = sys.modules.get("dlblas.own")  # nobody who has registered nothing imports it
    modules = own.modules() if own is not None else []
    argv = [sys.executable, "-m", "dlblas._worker"]
    for module in modules:
        argv += ["--import", module]
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = [package, *(os.path.abspath(folder) for folder in sys.path)]
    environment = [
        f"PYTHONPATH={os.pathsep.join(dict.fromkeys(path))}",
        "PYTHONSAFEPATH=1",  # -m would put the current folder first
    ]
    set_worker = _native.library().dlblas_set_worker
    set_worker.argtypes = [ctypes.POINTER(ctypes.c_char_p)] * 2
    _native.check(set_worker(*(_texts(words) for words in (argv, environment))))


def _texts(words: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [os.fsencode(word) for word in words]
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def _modules(arguments: Sequence[str]) -> list[str]:
    words = iter(arguments)
    return [next(words) for word in words if word == "--import"]


def main(arguments: Sequence[str]) -> int:
    """Imports, then serves until the tuner hangs up; the exit status."""
    global serving
    serving = True
    import faulthandler
    import importlib

    faulthandler.enable()  # a crash in a user's function says where, on the captured standard error
    for module in _modules(arguments):
        importlib.import_module(module)
    # Without the interpreter's lock, as every long call: users' functions take it.
    run = ctypes.CDLL(_native.library_path()).dlblas_worker_main
    run.argtypes, run.restype = [ctypes.c_int32], ctypes.c_int32
    return int(run(_SOCKET))


if __name__ == "__main__":
    # The package's module, not this copy of it: what it says of itself is read there.
    from dlblas import _worker

    status = _worker.main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # nothing that was measured is worth an orderly end
