"""How deep a thread is in users' functions that ask the library what asks them again.

Each asks for several sizes or configurations, so that a few levels take for ever. Read next:
_hooks.py, own/_function.py.
"""

from __future__ import annotations

import threading

MOST = 4


class Nested(threading.local):
    """``with nested as fine``: False too deep down, where no user's function may be asked."""

    depth = 0

    def __enter__(self) -> bool:
        self.depth += 1
        return self.depth <= MOST

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
