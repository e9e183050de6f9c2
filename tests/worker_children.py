"""Processes that tune, for the tests of workers: started, inspected, and checked to have ended.
Read next: test_worker.py, test_worker_ctrl_c.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import dlblas

PACKAGE = Path(dlblas.__file__).parent.parent


def child(command: str | list[str], cache: Path, **env: str) -> subprocess.Popen[str]:
    """Starts Python code, or a command's arguments, in its own session: its group is signalled as a
    terminal's is."""
    if isinstance(command, str):
        command = [sys.executable, "-c", textwrap.dedent(command)]
    return subprocess.Popen(
        command,
        env={**os.environ, "DLBLAS_CACHE": str(cache), "PYTHONPATH": str(PACKAGE), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell's background job is told to ignore SIGINT, and so are its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run(code: str, cache: Path, **env: str) -> tuple[Any, str]:
    """The JSON that the code prints last, and its standard error."""
    process = child(code, cache, **env)
    out, err = process.communicate(timeout=480)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1]), err


def children_of(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True
