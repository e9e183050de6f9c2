"""Runs first calls of functions that cannot be given to a worker in a forked child; one that
crashes there is not run here.

In: the step that the library calls for a local candidate on the CPU. Out: ``guarded``, the same
step, but in a search the first call of each configuration is tried in a child first. Only a death
counts. A child that does not return says nothing: OpenMP threads do not survive a fork, and a
function that waits for them is correct here. Read next: own/_register.py, _search.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

_CAME_BACK = 86  # the child's status where the function did
_SECONDS = 3.0  # that a child may take
_lock = threading.Lock()
_searches = 0
_deaths: dict[tuple[Any, ...], str | None] = {}  # of what was tried; None: it came back


@contextlib.contextmanager
def searching() -> Iterator[None]:
    """Wraps a search, during which new functions are called."""
    global _searches
    with _lock:
        _searches += 1
    try:
        yield
    finally:
        with _lock:
            _searches -= 1
            if _searches == 0:
                _deaths.clear()


def guarded(step: Callable[..., str | None]) -> Callable[..., str | None]:
    """Guards ``step(rows, values, sizes, codes, stream, threads)``, which returns None or, in
    words, why it failed."""

    def run(*call: Any) -> str | None:
        if _searches:
            tried = (step, call[3])
            if tried not in _deaths:
                _deaths[tried] = None  # in the child, too
                _deaths[tried] = _death(step, call)
            if words := _deaths.get(tried):  # another search may have ended
                return words
        return step(*call)

    return run


def _death(step: Callable[..., str | None], call: tuple[Any, ...]) -> str | None:
    """How the child died, if the function killed it; else None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a fork beside threads
            pid = os.fork()
    except OSError:
        return None
    if pid == 0:
        try:
            step(*call)
        finally:
            os._exit(_CAME_BACK)
    end = time.monotonic() + _SECONDS
    pause = 0.0002
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(pause)
        pause = min(0.02, 2 * pause)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return f"crash: {name} in a forked child; it was not run in this process"
    if os.WEXITSTATUS(status) != _CAME_BACK:
        ended = os.WEXITSTATUS(status)
        return f"crash: it ended a forked child with status {ended}; it was not run in this process"
    return None
