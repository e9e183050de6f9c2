"""A search as people watch it: one line that renews itself on a terminal, else one line per step.

In: ``ProgressEvent``s of ``tune`` and ``get_op``. The line holds done/planned, the best so far,
elapsed/budget, the time left and failures by kind. Read next: tuning.py, cli.py.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TextIO

from ._streams import RENEW
from ._text import harmless, milliseconds
from .tuning import ProgressEvent

_EVERY_S = 0.1  # a terminal line is renewed no oftener: at 1000 steps a second it would cost time
_QUIET_S = 2.0


class Progress:
    """``progress=`` of a search. ``quiet``: without a terminal, the state every two seconds."""

    def __init__(
        self,
        label: str,
        stream: TextIO | None = None,
        quiet: bool = False,
        rate: Callable[[float], str] | None = None,
    ) -> None:
        self._label, self._quiet, self._rate = label, quiet, rate
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._failures: Counter[str] = Counter()
        self._shown = 0.0

    def __call__(self, event: ProgressEvent) -> None:
        if event.kind == "failed":
            self._failures[event.note.partition(":")[0]] += 1
        if self._terminal:
            now = time.monotonic()
            if event.kind == "done":
                self.clear()
            elif event.kind in ("start", "final") or now - self._shown > _EVERY_S:
                self._shown = now
                width = shutil.get_terminal_size().columns - 1
                self._write(RENEW + harmless(self.line(event), width)[:width])
            return
        if not self._quiet:
            self._write(self.step(event) + "\n")
        elif event.elapsed_s - self._shown > _QUIET_S and event.kind != "done":
            self._shown = event.elapsed_s
            self._write(self.line(event) + "\n")

    def clear(self) -> None:
        if self._terminal:
            self._write(RENEW)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _best_so_far(self, event: ProgressEvent) -> str:
        if event.best_ms < 0:
            return "best -"
        rate = f" ({self._rate(event.best_ms)})" if self._rate else ""
        return f"best {milliseconds(event.best_ms)}{rate} {event.best}"

    def _budget(self, event: ProgressEvent) -> str:
        left = max(0.0, event.budget_s - event.elapsed_s)
        if event.done and event.kind != "final":  # the space may be through before the budget is
            left = min(left, event.elapsed_s / event.done * max(0, event.planned - event.done))
        return f"{event.elapsed_s:.1f}/{event.budget_s:.3g} s, ETA {left:.1f} s"

    def _failed(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._failures.items()))
        return f", failed: {kinds}" if kinds else ""

    def line(self, event: ProgressEvent) -> str:
        """The state of the search, for a terminal."""
        phase = "final " if event.kind == "final" else ""
        return (
            f"{self._label} {phase}{event.done}/{event.planned}, {self._budget(event)}"
            f"{self._failed()}, {self._best_so_far(event)}"
        )

    def step(self, event: ProgressEvent) -> str:
        """What happened, for a log."""
        spent = f"{event.elapsed_s:.2f}/{event.budget_s:.3g} s"
        head = f"{self._label} {event.done}/{event.planned} {spent}"
        if event.kind in ("measured", "failed"):
            what = f"{event.implementation} {event.config}".rstrip()
            measured = event.kind == "measured"
            result = milliseconds(event.milliseconds) if measured else harmless(event.note)
            return f"{head} {event.kind} {result} {what}; {self._best_so_far(event)}"
        note = f" {harmless(event.note)}" if event.note else ""
        best = "" if event.kind == "start" else f"; {self._best_so_far(event)}{self._failed()}"
        return f"{head} {event.kind}{note}{best}"
