"""Calls as ranges of torch's profiler, named by implementation and configuration.

NVTX needs nothing of this: the library makes its ranges itself where a profiler has injected
itself. Read next: src/core/ranges.hpp.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from ._functions import native

_lock = threading.Lock()
_open = 0
_of_thread = threading.local()


def _tell(name: str | None) -> None:
    """A call begins, or the one that this thread began last is over."""
    stack: list[Any] = _of_thread.__dict__.setdefault("stack", [])
    if name is None:
        stack.pop().__exit__(None, None, None)
        return
    from torch.profiler import record_function

    stack.append(record_function(name))
    stack[-1].__enter__()


@contextlib.contextmanager
def profiler_ranges() -> Iterator[None]:
    """Inside, torch's profiler shows each call on any thread as a range of its own.

    Its name says what ran: ``dlblas::rms_norm cuda_registers threads=256 …, T=16 C=4096,bf16,…``.
    Costs some microseconds per call inside, nothing outside. Nests.
    """
    global _open
    import torch.profiler  # noqa: F401  (an ImportError here, not in the middle of a call)

    with _lock:
        _open += 1
        if _open == 1:
            native["set_ranges"](_tell)
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if _open == 0:
                native["set_ranges"](None)


atexit.register(native["set_ranges"], None)
