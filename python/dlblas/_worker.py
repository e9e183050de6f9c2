"""The process in which candidates are measured: ``python -c … --import MODULE …``.

The library starts it (socket on descriptor 3, standard error captured) with the command of
_worker_command.py, serves one search in it, and kills it. In: the modules, script and CUDA texts
that the command line and the environment name. Read next: bindings/c/worker.cpp, docs/tuning.md.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from . import _native, _worker_command

_SOCKET = 3


def _modules(arguments: Sequence[str]) -> list[str]:
    words = iter(arguments)
    return [next(words) for word in words if word == "--import"]


def _rows_in() -> list[Any]:
    names = (f"{_worker_command.ROWS}{i}" for i in range(_worker_command.MAX_PARTS))
    parts = [os.environ.pop(name, "") for name in names]
    os.environ.pop(_worker_command.IMPORTS, None)
    return list(json.loads("".join(parts) or "[]"))


def _run_script(file: str, package: str, arguments: Sequence[str]) -> None:
    """Runs the script's body, as multiprocessing does, without the code below its guard."""
    from .own import _source  # a worker without registrations starts without dlblas.own

    # The loader is given explicitly: a script need not have the suffix by which one is found.
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
    """Imports the modules, then serves until the tuner hangs up; returns the exit status."""
    _worker_command.serving = True
    pid = os.getpid()
    faulthandler.enable()  # a crash in a user's function says where, on the captured standard error
    # The caller handles Ctrl-C. A SIGINT that a user's function raises here would otherwise reach
    # the next candidate.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    at = arguments.index("--script") if "--script" in arguments else len(arguments)
    for module in _modules(arguments[:at]):
        importlib.import_module(module)
    if at < len(arguments):
        file, package, *theirs = arguments[at + 1 :]
        _run_script(file, package, theirs)
    rows = _rows_in()
    if rows:
        from .own._load import load
        from .own._register import register_again

        for row in rows:
            if isinstance(row, dict) and "load" in row:
                load(row["load"])
            else:
                register_again(row)
    if os.getpid() != pid:  # a module forked while it was imported: one of the two serves
        os._exit(0)
    # Called without the GIL, as every long call: users' functions take it.
    run = ctypes.CDLL(_native.library_path()).dlblas_worker_main
    run.argtypes, run.restype = [ctypes.c_int32], ctypes.c_int32
    return int(run(_SOCKET))


def run() -> None:
    """The whole life of a worker."""
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # nothing that was measured is worth an orderly end
