"""The progress display of a search: one line, updated in place, on a terminal or in a notebook;
elsewhere a line at the start, every five seconds and at the end.

In: ``ProgressEvent``s of ``tune`` and ``get_op``. The line holds done/planned, the best so far,
elapsed/budget, the time left and failures by kind. No event arrives while a worker starts, or
during the first call of a user's function (it may import torch, and compile itself): a thread then
counts the seconds. Read next: _search.py, cli.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TextIO

from ._reports import ProgressEvent
from ._streams import RENEW
from ._text import harmless, microseconds

_EVERY_S = 0.1  # a terminal line is renewed no oftener: at 1000 steps a second it would cost time
_LINES_EVERY_S = 5.0
_QUIET_S = 2.0
_DELAY_S = 1.0  # what is over by then needs no line
_FIRST_CALL_S = 30  # as kFirstCallSeconds of src/tuner/measure.hpp
_TICK_S = 0.5  # a first call's seconds are counted as often


def listener(
    wanted: Any, label: str, stack: contextlib.ExitStack
) -> Callable[[ProgressEvent], Any] | None:
    """The callback of a search that ``progress=`` requests; ``stack`` cleans up after it."""
    if callable(wanted):
        return wanted  # type: ignore[no-any-return]
    if wanted is False or (wanted is None and not is_wanted()):
        return None
    delay = 0.0 if wanted else _DELAY_S
    notebook = _notebook()
    stream = sys.stderr
    if notebook is None and stream is None:  # a process without one
        return None
    shown = Progress(label, stream, delay=delay, display=notebook)
    stack.callback(shown.clear)
    return shown


def is_wanted() -> bool:
    """Whether DLBLAS_PROGRESS allows it; the library's log reports a wrong value (core/env.cpp)."""
    return os.environ.get("DLBLAS_PROGRESS", "") not in ("0", "off", "false", "no")


def _notebook() -> Callable[..., Any] | None:
    """IPython's ``display``, if this process is a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    if not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    show: Callable[..., Any] = import_module("IPython.display").display
    return show


class Progress:
    """``progress=`` of a search. ``quiet``: without a terminal, only the state every two seconds;
    ``delay``: the seconds before a terminal or ``display`` (a notebook's) shows anything."""

    def __init__(
        self,
        label: str,
        stream: TextIO | None = None,
        quiet: bool = False,
        rate: Callable[[float], str] | None = None,
        delay: float = 0.0,
        display: Callable[..., Any] | None = None,
    ) -> None:
        self._label, self._quiet, self._rate = label, quiet, rate
        self._delay, self._display = delay, display
        self._stream = stream or sys.stderr
        self._terminal = display is None and self._stream.isatty()
        self._failures: Counter[str] = Counter()
        self._shown = 0.0
        self._begin = time.monotonic()
        self._handle: Any = None  # of what a notebook shows
        self._called = 0.0  # when the first call began that is on
        self._ticks: tuple[threading.Thread, threading.Event] | None = None

    def __call__(self, event: ProgressEvent) -> None:
        self._stop_ticks()
        if event.kind == "failed":
            self._failures[event.note.partition(":")[0]] += 1
        if event.kind in ("first_call", "worker"):
            self._start_ticks(event)
        else:
            self._show(event)

    def _start_ticks(self, event: ProgressEvent) -> None:
        self._called = time.monotonic()
        over = threading.Event()

        def tick() -> None:
            while not over.wait(_TICK_S):
                self._show(event)

        thread = threading.Thread(target=tick, name="dlblas progress", daemon=True)
        self._ticks = (thread, over)
        thread.start()

    def _stop_ticks(self) -> None:
        if self._ticks is not None:
            thread, over = self._ticks
            self._ticks = None
            over.set()
            thread.join()

    def _show(self, event: ProgressEvent) -> None:
        if self._display is not None:
            self._in_notebook(event)
        elif self._terminal:
            self._on_terminal(event)
        else:
            self._in_lines(event)

    def clear(self) -> None:
        self._stop_ticks()
        if self._terminal:
            self._write(RENEW)

    def _is_due(self, event: ProgressEvent) -> bool:
        now = time.monotonic()
        if now - self._begin < self._delay:
            return False
        if event.kind not in ("start", "final") and now - self._shown <= _EVERY_S:
            return False
        self._shown = now
        return True

    def _on_terminal(self, event: ProgressEvent) -> None:
        if event.kind == "done":
            self.clear()
        elif self._is_due(event):
            width = shutil.get_terminal_size().columns - 1
            self._write(RENEW + harmless(self.line(event), width)[:width])

    def _in_notebook(self, event: ProgressEvent) -> None:
        assert self._display is not None
        done = event.kind == "done"
        if not (done and self._handle) and (done or not self._is_due(event)):
            return
        shown = {"text/plain": harmless(self.line(event))}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def _in_lines(self, event: ProgressEvent) -> None:
        every = _QUIET_S if self._quiet else _LINES_EVERY_S
        now = time.monotonic() - self._begin  # a first call is no part of event.elapsed_s
        due = not self._quiet if event.kind in ("start", "done") else now - self._shown > every
        if due:
            self._shown = now
            self._write(harmless(self.line(event)) + "\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # closed or full: the search goes on
            self._stream.write(text)
            self._stream.flush()

    def _best_so_far(self, event: ProgressEvent) -> str:
        if event.best_ms < 0:
            return "best -"
        rate = f" ({self._rate(event.best_ms)})" if self._rate else ""
        return f"best {microseconds(event.best_ms)}{rate} {event.best}"

    def _budget(self, event: ProgressEvent) -> str:
        left = max(0.0, event.budget_s - event.elapsed_s)
        if event.done and event.kind != "final":  # the space may be through before the budget is
            left = min(left, event.elapsed_s / event.done * max(0, event.planned - event.done))
        return f"{event.elapsed_s:.1f}/{event.budget_s:.3g} s, ETA {left:.1f} s"

    def _failed(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._failures.items()))
        return f", failed: {kinds}" if kinds else ""

    def line(self, event: ProgressEvent) -> str:
        """The state of the search."""
        if event.kind == "start":
            return f"{self._label}: {event.planned} to measure, within {event.budget_s:.3g} s"
        if event.kind == "first_call":
            called = time.monotonic() - self._called
            of_them = "" if called <= _FIRST_CALL_S else f", {_FIRST_CALL_S} of them"
            return (
                f"{self._label} {event.done}/{event.planned}, first call of "
                f"{event.implementation}: {called:.0f} s{of_them} beside the budget, "
                f"{self._best_so_far(event)}"
            )
        if event.kind == "worker":
            why = f" ({event.note})" if event.note else ""
            return f"{self._label}: starting a worker{why}: {time.monotonic() - self._called:.0f} s"
        phase = f"{event.kind} " if event.kind in ("final", "done") else ""
        return (
            f"{self._label} {phase}{event.done}/{event.planned}, {self._budget(event)}"
            f"{self._failed()}, {self._best_so_far(event)}"
        )
