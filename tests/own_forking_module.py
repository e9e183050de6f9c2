"""Implementations that fork, start programs, or tamper with the worker's socket. Registered at
import, so that a worker has them too. Read next: test_own_worker_forks.py."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any

import dlblas
import numpy as np

SOCKET = 3  # of a worker; elsewhere it is left alone
KNOBS = {"part": [1, 2, 3, 4]}
_forked = False


def _right(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    f = x.astype(np.float64)
    scale = 1 / np.sqrt((f * f).mean(-1, keepdims=True) + eps)
    y[...] = f * scale * (weight + weight_offset)


def _in_worker() -> bool:
    from dlblas import _worker_command

    return _worker_command.serving


def _register(name: str, act: Any, knobs: Any = None) -> None:
    def run(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, **_: Any) -> None:
        if _in_worker():
            act()
        _right(x, weight, eps, weight_offset, y)

    dlblas.register("rms_norm", name, run, space=knobs)


def _fork_once() -> None:
    global _forked
    if not _forked:
        _forked = True
        os.fork()


def _fork_and_run() -> None:
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/true", ["true"])
    os.waitpid(pid, 0)


def _raise_in_child() -> None:
    if os.fork() == 0:
        raise RuntimeError("in the child")


def _exit_in_child() -> None:
    if os.fork() == 0:
        sys.exit(0)


def _leave_helper() -> None:
    global _forked
    if not _forked:
        _forked = True
        if os.fork() == 0:
            time.sleep(600)


def _write_later() -> None:
    threading.Timer(0.02, lambda: os.write(SOCKET, b"later")).start()


_register("forks", _fork_once, KNOBS)
_register("forks_twice", lambda: os.fork() == 0 and os.fork())
_register("raises_in_child", _raise_in_child)
_register("exits_in_child", _exit_in_child)
_register("closes", lambda: os.close(SOCKET))
_register("writes", lambda: os.write(SOCKET, b"WBLD" * 100))
_register("writes_later", _write_later)
_register("runs_a_program", lambda: subprocess.run(["/bin/true"], check=True))
_register("forks_a_program", _fork_and_run)
_register("leaves_a_helper", _leave_helper)


@dlblas.register("rms_norm", "wrong", space=KNOBS)
def wrong(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, part: int) -> None:
    y[...] = 1.5


NAMES = [
    "forks",
    "forks_twice",
    "raises_in_child",
    "exits_in_child",
    "closes",
    "writes",
    "writes_later",
    "runs_a_program",
    "forks_a_program",
    "leaves_a_helper",
    "wrong",
]
