"""A search shows its progress: on terminals, in notebooks, in pipes; as a report, an operation, a
CSV file.

Read next: python/dlblas/_progress.py, _reports.py, _search_log.py.
"""

from __future__ import annotations

import csv
import os
import pathlib
import pty
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import dlblas
import pytest
from dlblas import _progress
from dlblas._reports import ProgressEvent
from dlblas._search_log import COLUMNS
from dlblas._streams import RENEW

np = pytest.importorskip("numpy")
PACKAGE = pathlib.Path(dlblas.__file__).parent.parent
SEARCH = """
import dlblas
x, w = dlblas.Spec((16, 512), "f32"), dlblas.Spec((512,), "f32")
print(dlblas.tune("rms_norm", (x, w), seconds=1, max_evaluations=4{more}).source)
"""


def event(kind: str, elapsed_s: float, done: int = 1) -> ProgressEvent:
    return ProgressEvent(kind, done, 9, 0, "i", "c", "", 0.5, 0.5, "i c", elapsed_s, 10.0)


class Shown:
    def __init__(self, terminal: bool) -> None:
        self.text, self._terminal = "", terminal

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])

    def tell(shown: _progress.Progress, kind: str, at: float) -> None:
        now[0] = 100.0 + at
        shown(event(kind, at))

    return tell


def child(more: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k != "DLBLAS_PROGRESS"}
    return subprocess.run(
        [sys.executable, "-c", SEARCH.format(more=more)],
        env={**kept, "PYTHONPATH": str(PACKAGE), **env}, capture_output=True, text=True,
        timeout=480,
    )  # fmt: skip


def test_a_terminal_has_a_line_after_a_second(clock: Any) -> None:
    stream: Any = Shown(True)
    shown = _progress.Progress("op", stream, delay=1.0)
    for at in (0.0, 0.5, 0.9):
        clock(shown, "measured", at)
    assert stream.text == ""
    clock(shown, "measured", 1.1)
    clock(shown, "measured", 1.15)  # renewed no oftener than ten times a second
    clock(shown, "measured", 1.3)
    assert stream.text.count(RENEW) == 2 and "\n" not in stream.text
    clock(shown, "done", 1.4)
    assert stream.text.endswith(RENEW)


def test_a_pipe_has_lines_at_the_start_every_five_seconds_and_at_the_end(clock: Any) -> None:
    stream: Any = Shown(False)
    shown = _progress.Progress("op", stream)
    clock(shown, "start", 0.0)
    for tenth in range(1, 121):
        clock(shown, "measured", tenth / 10)
    clock(shown, "done", 12.1)
    lines = stream.text.splitlines()
    assert len(lines) == 4 and lines[0] == "op: 9 to measure, within 10 s"
    assert "5.1/10 s" in lines[1] and "10.2/10 s" in lines[2] and "op done" in lines[3]


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_the_seconds_of_a_first_call_are_counted(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count goes on although no event arrives meanwhile."""
    monkeypatch.setattr(_progress, "_TICK_S", 0.01)
    monkeypatch.setattr(_progress, "_LINES_EVERY_S", 0.05)
    stream: Any = Shown(terminal)
    shown = _progress.Progress("op", stream)
    shown(event("first_call", 0.3))
    until = time.monotonic() + 20
    while stream.text.count(" s beside the budget") < 3:
        assert time.monotonic() < until, stream.text
        time.sleep(0.01)
    shown(event("measured", 0.4))
    written = stream.text
    time.sleep(0.1)
    assert stream.text == written  # the thread is over
    assert stream.text.startswith(RENEW if terminal else "op 1/9, first call")


def test_the_start_of_a_worker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "_TICK_S", 0.01)
    stream: Any = Shown(True)
    shown = _progress.Progress("op", stream)
    shown(event("worker", 0.0)._replace(note="it imports your modules"))
    until = time.monotonic() + 20
    while "op: starting a worker (it imports your modules): 0 s" not in stream.text:
        assert time.monotonic() < until, stream.text
        time.sleep(0.01)
    shown(event("worker", 0.0)._replace(note=""))
    while not stream.text.endswith("op: starting a worker: 0 s"):
        assert time.monotonic() < until, stream.text
        time.sleep(0.01)
    shown.clear()


def test_a_closed_pipe_ends_no_search(clock: Any) -> None:
    class Closed(Shown):
        def write(self, text: str) -> None:
            raise BrokenPipeError

    stream: Any = Closed(False)
    clock(_progress.Progress("op", stream), "start", 0.0)


def test_from_python_off_a_terminal() -> None:
    done = child()
    assert done.stdout == "tuned\n" and len(done.stderr.splitlines()) == 2, done.stderr
    assert "rms_norm 16x512 512: " in done.stderr and "best " in done.stderr
    for quiet in (child(more=", progress=False"), child(DLBLAS_PROGRESS="0")):
        assert (quiet.stdout, quiet.stderr) == ("tuned\n", "")
    asked = child(more=", progress=True", DLBLAS_PROGRESS="0")
    assert len(asked.stderr.splitlines()) == 2
    wrong = child(DLBLAS_PROGRESS="loud")
    words = "dlblas: DLBLAS_PROGRESS has a wrong value; expected 0 or 1, got loud; it counts as 1\n"
    assert wrong.stderr.count(words) == 1 and "UserWarning" not in wrong.stderr


def test_from_python_on_a_terminal() -> None:
    """The line is drawn and erased: nothing is left of it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCH.format(more=", progress=True")],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)}, stderr=theirs, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs)
    text = b""
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:
            break
        if not read:
            break
        text += read
    os.close(ours)
    assert process.wait(120) == 0
    assert b"rms_norm 16x512 512" in text and text.endswith(RENEW.encode()), text


def test_a_notebook_has_one_line_that_is_renewed(
    monkeypatch: pytest.MonkeyPatch, clock: Any
) -> None:
    shows: list[str] = []
    handle = types.SimpleNamespace(update=lambda text, raw: shows.append(text["text/plain"]))

    def display(text: dict[str, str], raw: bool, display_id: bool) -> Any:
        shows.append(text["text/plain"])
        return handle

    shell = types.SimpleNamespace(kernel=object())
    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    shower: Any = types.ModuleType("IPython.display")
    shower.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shower)
    import contextlib

    monkeypatch.delenv("DLBLAS_PROGRESS", raising=False)
    with contextlib.ExitStack() as stack:
        told: Any = _progress.listener(None, "op", stack)
        clock(told, "measured", 0.5)
        assert shows == []
        clock(told, "measured", 1.2)
        clock(told, "measured", 1.4)
        clock(told, "done", 1.5)
    assert len(shows) == 3 and shows[-1].startswith("op done")


def test_a_function_is_told_every_event() -> None:
    x, w = dlblas.Spec((4, 64), "f32"), dlblas.Spec((64,), "f32")
    events: list[ProgressEvent] = []
    dlblas.tune("rms_norm", (x, w), seconds=1, max_evaluations=3, progress=events.append)
    kinds = [e.kind for e in events]
    assert kinds[0] == "start" and kinds[-1] == "done"
    assert kinds.count("measured") >= 3  # a bad first sample is taken again


def test_log_has_a_row_a_measurement(tmp_path: pathlib.Path) -> None:
    x, w = dlblas.Spec((4, 64), "f32"), dlblas.Spec((64,), "f32")
    file = tmp_path / "search.csv"
    for _ in range(2):
        dlblas.tune("rms_norm", (x, w), seconds=1, max_evaluations=3, progress=False, log=file)
    with file.open(newline="") as opened:
        header, *rows = csv.reader(opened)
    assert tuple(header) == COLUMNS
    read = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    # A sample that a burst of other work may have slowed is taken again: one more row.
    begun = next(i for i in range(1, len(rows)) if float(rows[i][1]) < float(rows[i - 1][1]))
    for search in (read[:begun], read[begun:]):
        tried = {(row["implementation"], row["config"]) for row in search}
        assert len(tried) == 3 <= len(search) <= 6
    assert all(row["search"] == "rms_norm 4x64 64" and float(row["ms"]) > 0 for row in read)
    assert {row["implementation"] for row in read} <= {"cpu_avx512", "cpu_avx2", "cpu_baseline"}


def test_effort_is_a_budget() -> None:
    x, w = dlblas.Spec((4, 64), "f32"), dlblas.Spec((64,), "f32")
    for effort, seconds in (("quick", 2.0), ("thorough", 60.0)):
        options: Any = {"effort": effort, "max_evaluations": 2, "progress": False}
        assert dlblas.tune("rms_norm", (x, w), **options).budget_s == seconds


def test_reports_explanations_and_operations_print_what_matters() -> None:
    x, w = np.ones((16, 96), "f"), np.ones(96, "f")
    op = dlblas.get_op("rms_norm", (x, w), seconds=2, max_evaluations=4, progress=False)
    report, winner = op.report, op.report.winner
    assert winner is not None and f"> {winner['implementation']} {winner['config']}" in str(report)
    assert str(report) == repr(report) and len(repr(report)) < 3000
    assert report._repr_html_().startswith("<pre>rms_norm [T=16 C=96]")
    assert op.explain()._repr_html_().startswith("<pre>rms_norm [T=16 C=96]")
    line = repr(op)
    assert line.startswith(f"<rms_norm [T=16 C=96] f32 → {winner['implementation']} "), line
    assert line.endswith(" µs, store>"), line
    silu = dlblas.get_op("matmul_silu", (x, x.T.copy()), max_evaluations=2, seconds=1)
    assert repr(silu).startswith("<matmul(activation='silu') [M=16 ")
    assert "<pre>&lt;matmul" in silu._repr_html_()
