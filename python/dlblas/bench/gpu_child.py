"""The process that measures a GPU section: rows as they arrive, a time limit, an interrupt.

In: a request and an environment. Out: rows, one call for each as soon as it is on disk, and how the
process ended. Used by: __init__.py. Read next: gpu.py, which the process runs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO, Any

Row = dict[str, Any]

_COMMAND = [sys.executable, "-m", "dlblas.bench.gpu"]
_POLL_S = 0.1
# Seconds for an interrupted process: a running compilation or search may not react at once.
_PATIENCE_S = 3.0
INTERRUPTED, LIMITED = 130, 0


def measure(request: Row, env: dict[str, str], on_row: Callable[[Row], Any]) -> tuple[int, str]:
    """The exit code (130: this process was interrupted) and why it ended early, or "". With
    ``request["within"]`` the process is stopped by then, whatever it is doing: not a failure."""
    within = request.get("within")
    until = None if within is None else request["asked"] + within - min(_PATIENCE_S, within / 2)
    child = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, text=True, env=env)
    rows = _Lines(request["result"])
    code, why = None, ""
    try:
        if child.stdin is not None:
            _send(child.stdin, request)
        while (code := child.poll()) is None:
            for row in rows:
                on_row(row)
            if until is not None and time.time() > until:
                code, why = LIMITED, f"ended in the midst of a problem, to keep {within:g} s"
                break
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        code, why = INTERRUPTED, "was interrupted"
    _stop(child)
    for row in rows:
        on_row(row)
    return code, why or (f"ended with exit code {code}" if code else "")


def _send(stdin: IO[str], request: Row) -> None:
    try:
        stdin.write(json.dumps(request))
        stdin.close()
    except BrokenPipeError:  # it has ended, and its exit code says how
        pass


class _Lines:
    """Complete lines of a growing file. Stops at its current end; iterating again resumes."""

    def __init__(self, path: str) -> None:
        self._path, self._at = path, 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> Row:
        if not os.path.exists(self._path):
            raise StopIteration
        with open(self._path, encoding="utf-8") as file:
            file.seek(self._at)
            line = file.readline()
            if not line.endswith("\n"):
                raise StopIteration
            self._at = file.tell()
        row: Row = json.loads(line)
        return row


def _stop(child: subprocess.Popen[str]) -> None:
    """Interrupts the child; kills it after ``_PATIENCE_S`` or at a second Ctrl-C."""
    if child.poll() is not None:
        return
    try:
        child.send_signal(signal.SIGINT)
        child.wait(_PATIENCE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.kill()
        child.wait()
