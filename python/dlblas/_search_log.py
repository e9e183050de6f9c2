"""``log=``: a search as a CSV file, one row per measurement; several searches may share a file.

In: ``ProgressEvent``s. Out: rows of ``COLUMNS``, each appended to the file as it happens. Read
next: _search.py.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from ._options import refuse
from ._reports import ProgressEvent

COLUMNS = (
    "search", "elapsed_s", "implementation", "config", "ms", "failure", "note", "best_ms", "best",
)  # fmt: skip


def listener(
    what: str, path: str | os.PathLike[str], label: str, stack: contextlib.ExitStack
) -> Callable[[ProgressEvent], None]:
    """Opens the file, until ``stack`` closes. A file that cannot be written raises ArgumentError
    before anything is measured."""
    import csv

    try:
        file = open(path, "a", newline="", buffering=1, encoding="utf-8")  # noqa: SIM115 - below
    except (OSError, ValueError) as why:  # the latter: a null character
        expected = "a file that can be written"
        raise refuse(what, "log", "cannot be written", expected, str(why), "name another") from why
    stack.enter_context(file)
    rows: Any = csv.writer(file)
    if file.tell() == 0:
        rows.writerow(COLUMNS)

    def write(event: ProgressEvent) -> None:
        if event.kind not in ("measured", "failed"):
            return
        failed = event.kind == "failed"
        failure, _, note = event.note.partition(": ") if failed else ("", "", event.note)
        rows.writerow(
            [
                label, f"{event.elapsed_s:.6f}", event.implementation, event.config,
                "" if failed else f"{event.milliseconds:.6g}", failure, note,
                "" if event.best_ms < 0 else f"{event.best_ms:.6g}", event.best,
            ]
        )  # fmt: skip

    return write
