"""Shows calls as ranges of torch's profiler, named by implementation and configuration.

NVTX does not need this module: the library emits its ranges itself if a profiler has injected
itself. torch's profiler is tracked through the Python functions that it runs when it starts and
stops; asking in every call whether it runs would cost 2 % more. Read next: src/core/ranges.hpp.
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
_followed = False  # torch's profiler runs, and is one of those
_of_thread = threading.local()


def _tell(name: str | None) -> None:
    """Opens the range of a call that begins, or, for None, closes the one that this thread opened
    last."""
    stack: list[Any] = _of_thread.__dict__.setdefault("stack", [])
    if name is None:
        stack.pop().__exit__(None, None, None)
        return
    from torch.profiler import record_function

    stack.append(record_function(name))
    stack[-1].__enter__()


def _count(more: int) -> None:
    global _open
    with _lock:
        before, _open = _open, _open + more
        if (before > 0) != (_open > 0):
            native["set_ranges"](_tell if _open else None)


def _follow(running: bool) -> None:
    global _followed
    if running != _followed:
        _followed = running
        _count(1 if running else -1)


def follow(profiler: Any) -> None:
    """Emits ranges while torch's profiler runs; ``profiler`` is ``torch.autograd.profiler``. With a
    torch that lacks these functions, users have to call ``profiler_ranges``."""
    hooks = {"_run_on_profiler_start": True, "_run_on_profiler_stop": False}
    if not all(callable(getattr(profiler, name, None)) for name in hooks):
        return
    for name, running in hooks.items():
        theirs = getattr(profiler, name)

        def told(theirs: Any = theirs, running: bool = running) -> None:
            theirs()
            _follow(running)

        setattr(profiler, name, told)
    _follow(bool(getattr(profiler, "_is_profiler_enabled", False)))


@contextlib.contextmanager
def profiler_ranges() -> Iterator[None]:
    """Inside, torch's profiler shows each call on any thread as a range of its own.

    Its name says what ran: ``dlblas::rms_norm cuda_registers threads=256 …, T=16 C=4096,bf16,…``. A
    ``torch.profiler.profile`` shows these ranges without this; it is for other profilers, which
    torch's Python side does not start. Costs a few microseconds per call inside, nothing outside.
    Nests.
    """
    import torch.profiler  # noqa: F401  (an ImportError here, not in the middle of a call)

    _count(1)
    try:
        yield
    finally:
        _count(-1)


atexit.register(native["set_ranges"], None)
