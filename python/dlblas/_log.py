"""Forwards the library's log to Python's logger ``dlblas``, so that ``logging``, caplog and a
server's own handlers receive it.

``DLBLAS_LOG`` selects the lines (without it ``TORCH_LOGS=dlblas``: _early.py). If it selects more
than warnings and logging is not set up, lines go to standard error unchanged. With
``DLBLAS_LOG_FILE`` they go to that file alone. Read next: bindings/python/log.hpp,
src/core/log.hpp.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import Any

from ._functions import native

_logger: Any = None


def _set_up() -> Any:
    import logging

    global _logger
    if _logger is None:
        logger = logging.getLogger("dlblas")
        asked = set(os.environ.get("DLBLAS_LOG", "").split(","))
        if asked & {"info", "call", "search", "compile"}:
            if not logger.hasHandlers():
                logger.addHandler(logging.StreamHandler())
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.INFO)
        _logger = logger
    return _logger


def _tell(level: int, line: str) -> None:
    """``level``: LogLevel's number, 1 for warnings, 2 for the rest."""
    with contextlib.suppress(Exception):  # a handler's own: no call of an operator fails for it
        import logging

        _set_up().log(logging.WARNING if level == 1 else logging.INFO, "%s", line)


def connect() -> None:
    native["set_log"](_tell)
    atexit.register(native["set_log"], None)  # what waits is told; later lines go to fd 2
