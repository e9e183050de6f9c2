"""The copy that memory-bound kernels are compared with: a threaded memmove of arrays.

Used by: children.py. Read next: timing.py.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

# From this size on, glibc's memmove bypasses the caches: the driver sets the tunable.
STREAM_BYTES = 1 << 20


class Copy:
    """Copies pairs of arrays, one share per thread: streamed in one piece, or in pieces small
    enough to be stored through the caches."""

    def __init__(self, pairs: list[tuple[Any, Any]], num_threads: int, streamed: bool) -> None:
        self._parts: list[list[tuple[int, int, int]]] = [[] for _ in range(num_threads)]
        for to, source in pairs:
            share = -(-to.nbytes // num_threads // 64) * 64
            piece = share if streamed else STREAM_BYTES // 2
            for i, part in enumerate(self._parts):
                end = min((i + 1) * share, to.nbytes)
                for begin in range(i * share, end, piece):
                    length = min(piece, end - begin)
                    part.append((to.ctypes.data + begin, source.ctypes.data + begin, length))

    def run(self, helpers: list[Helper]) -> None:
        for helper, part in zip(helpers, self._parts[1:], strict=True):
            helper.start(part)
        for piece in self._parts[0]:
            ctypes.memmove(*piece)
        for helper in helpers:
            helper.wait()


class Helper:
    """A thread that copies in parallel with the caller: ctypes releases the GIL during memmove."""

    def __init__(self) -> None:
        self._work: list[tuple[int, int, int]] = []
        self._begin, self._end = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._begin.acquire()
            for piece in self._work:
                ctypes.memmove(*piece)
            self._end.release()

    def start(self, work: list[tuple[int, int, int]]) -> None:
        self._work = work
        self._begin.release()

    def wait(self) -> None:
        self._end.acquire()
