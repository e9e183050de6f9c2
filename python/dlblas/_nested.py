"""How deeply users' functions recurse on a thread: functions that call the library, which calls
them again.

Each level calls for several sizes or configurations, so a few levels would take for ever. Read
next: _hooks.py, own/_function.py.
"""

from __future__ import annotations

import threading

MAX_DEPTH = 4


class Nested(threading.local):
    """``with nested as fine``: False beyond ``MAX_DEPTH`` levels, where no user's function may be
    called."""

    depth = 0

    def __enter__(self) -> bool:
        self.depth += 1
        return self.depth <= MAX_DEPTH

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
