"""The process that candidates are measured in: ``python -c … --import MODULE …``, see ``_PROGRAM``.

The library starts it (socket under descriptor 3, standard error captured) with the command that
``announce`` names, serves one search in it, and kills it. The modules are those whose import
registers users' own implementations; a script with a guard is imported as well, and CUDA text from
elsewhere comes as it is. Read next: bindings/c/worker.cpp, docs/tuning.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import _native

_SOCKET = 3
_ROWS, _PART, _MOST_PARTS = "dlblas_worker_rows_", 100_000, 16
_PATH = "dlblas_worker_path"
# Not -m: the package itself may lie in a folder that PYTHONPATH cannot name. Only what is loaded
# before any folder is looked into is imported before the path stands.
_PROGRAM = (
    f"import os, sys; path = os.environ.pop({_PATH!r}); "
    "sys.path[:] = dict.fromkeys([*path[1:].split(path[0]), *filter(None, sys.path)]); "
    "from dlblas import _worker; _worker.run()"
)
# In a worker: what a user's module tunes while it is imported is measured where it is.
serving = False


def announce() -> None:
    """Tells the library how a worker starts now: with this interpreter, where modules are found
    today, and with what users have registered until now."""
    if serving or not sys.executable:
        return
    own = sys.modules.get("dlblas.own")  # nobody who has registered nothing imports it
    if not hasattr(own, "modules"):  # another thread is importing it: nothing is registered yet
        own = None
    argv = [sys.executable, "-c", _PROGRAM]
    environment = []
    if own is not None:
        for module in own.modules():
            argv += ["--import", module]
        if script := own._source.script():
            argv += ["--script", *script, *sys.argv]
        environment += _rows_out(own._source.rows())
    environment += [_PATH + "=" + _path_out(), "PYTHONSAFEPATH=1"]  # no current folder in front
    set_worker = _native.library().dlblas_set_worker
    set_worker.argtypes = [ctypes.POINTER(ctypes.c_char_p)] * 2
    _native.check(set_worker(*(_texts(words) for words in (argv, environment))))


def _path_out() -> str:
    """Where modules are found today. PYTHONPATH cannot say it of a folder with a colon in its name:
    here the first character, which stands nowhere else, separates the folders."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [package]
    for folder in sys.path:
        with contextlib.suppress(OSError):  # relative to a current folder that is gone
            if isinstance(folder, str) and "\0" not in folder:  # others are nobody's: PathFinder
                folders.append(os.path.abspath(folder))
    text = "".join(folders)
    mark = next(mark for mark in map(chr, range(1, 0x3000)) if mark not in text)
    return mark + mark.join(dict.fromkeys(folders))


def _texts(words: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [os.fsencode(word) for word in words]
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def _modules(arguments: Sequence[str]) -> list[str]:
    words = iter(arguments)
    return [next(words) for word in words if word == "--import"]


def _rows_out(rows: Sequence[Any]) -> list[str]:
    """CUDA texts by the environment, in parts: one variable has room for 128 KiB."""
    text = json.dumps(rows) if rows else ""
    parts = range(0, len(text), _PART)
    return [f"{_ROWS}{i}={text[begin : begin + _PART]}" for i, begin in enumerate(parts)]


def _rows_in() -> list[Any]:
    parts = [os.environ.pop(f"{_ROWS}{i}", "") for i in range(_MOST_PARTS)]
    return list(json.loads("".join(parts) or "[]"))


def _run_script(file: str, package: str, arguments: Sequence[str]) -> None:
    """As multiprocessing does: its body without what stands below the guard."""
    import importlib.machinery
    import importlib.util

    from .own import _source

    # A script needs no suffix, by which a loader would be found.
    loader = importlib.machinery.SourceFileLoader(_source.SCRIPT, file)
    spec = importlib.util.spec_from_file_location(_source.SCRIPT, file, loader=loader)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    module.__package__ = package
    sys.modules[spec.name] = module
    sys.argv[:] = arguments
    spec.loader.exec_module(module)


def main(arguments: Sequence[str]) -> int:
    """Imports, then serves until the tuner hangs up; the exit status."""
    global serving
    serving = True
    pid = os.getpid()
    import faulthandler
    import importlib
    import signal

    faulthandler.enable()  # a crash in a user's function says where, on the captured standard error
    # Ctrl-C is the caller's. One that a user's function raises here would else come again in the
    # next candidate's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    at = arguments.index("--script") if "--script" in arguments else len(arguments)
    for module in _modules(arguments[:at]):
        importlib.import_module(module)
    if at < len(arguments):
        file, package, *theirs = arguments[at + 1 :]
        _run_script(file, package, theirs)
    for row in _rows_in():
        from .own._register import register_again

        register_again(row)
    if os.getpid() != pid:  # a module forked while it was imported: one of both serves
        os._exit(0)
    # Without the interpreter's lock, as every long call: users' functions take it.
    run = ctypes.CDLL(_native.library_path()).dlblas_worker_main
    run.argtypes, run.restype = [ctypes.c_int32], ctypes.c_int32
    return int(run(_SOCKET))


def run() -> None:
    """The whole life of a worker."""
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # nothing that was measured is worth an orderly end
