"""A measuring process ends with the process that started it. Left alone it would keep its cores
busy, and slow down whatever is measured next.

Used by: children.py, cold.py, gpu.py, gpu_compile.py.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int | None = None) -> None:
    """``parent``: its process id, if known; this process ends if that one has already ended. On
    Linux only; elsewhere nothing happens."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    if prctl is None:
        return
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        sys.exit(128 + signal.SIGKILL)
