"""Ctrl-C during a search keeps what was measured, leaves no process behind, and the caller goes on:
in a worker and in this process, while a candidate is measured or hangs, or a worker starts. The
signal goes to the whole process group, as from a terminal. tests/cpp/test_worker.cpp covers Ctrl-C
while a candidate compiles.

Read next: docs/tuning.md ("In a worker"), bindings/python/control.cpp (the signal checks).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from worker_children import PACKAGE, child, children_of, ended

pytestmark = pytest.mark.attack("Ctrl-C while a worker measures")

SEARCH = """
    import json, os, sys, dlblas
    {before}
    def tell(event):
        print(event.kind, event.implementation, flush=True)
    x, w = dlblas.Spec((64, 4096), "f32"), dlblas.Spec((4096,), "f32")
    try:
        dlblas.tune("rms_norm", (x, w), seconds=60, progress=tell, {options})
        print("not interrupted")
    except KeyboardInterrupt:
        kept = dlblas.cache.ls()
        rows = dlblas.cache.show(kept[0]["hash"])["candidates"] if kept else []
        import numpy as np
        a, b = np.ones((64, 4096), "f"), np.ones(4096, "f")
        right = dlblas.verify("rms_norm", (a, b), dlblas.rms_norm(a, b)).ok
        print(json.dumps({{"kept": len(rows), "right": right,
                           "failed": [r["implementation"] for r in rows if r["failure"]]}}))
"""

# Hangs when called, or when a worker imports it; here it is only registered.
MODULE = """
import sys, time
import dlblas
from dlblas import _worker_command

@dlblas.register("rms_norm", "mine_hangs", devices="cpu")
def hangs(x, weight, y, **_):
    print("hangs", file=sys.stderr, flush=True)
    time.sleep(1000)

if {at_import} and _worker_command.serving:
    time.sleep(1000)
"""
CLOSURE = """
    import time
    def hangs(x, weight, y, **_):
        print("hanging", flush=True)
        time.sleep(1000)
    dlblas.register("rms_norm", "mine_hangs", hangs, devices="cpu")
"""


def interrupt(process: subprocess.Popen[str], at: str, after_s: float = 0.0) -> tuple[str, str]:
    """Ctrl-C once a line begins with `at`; returns what the process then wrote. Its workers end."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(at):
            break
    time.sleep(after_s)
    workers = children_of(process.pid)
    begin = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert time.monotonic() - begin < 10, "it waited for something"
    assert all(ended(worker) for worker in workers)
    return out, err


def told(out: str) -> dict[str, object]:
    got: dict[str, object] = json.loads(out.splitlines()[-1])
    return got


@pytest.mark.parametrize("worker", [True, False])
def test_in_the_middle(worker: bool, tmp_path: Path) -> None:
    process = child(SEARCH.format(before="", options=f"worker={worker}"), tmp_path)
    out, err = interrupt(process, "measured")
    assert process.returncode == 0, err
    got = told(out)
    assert got["right"] and got["kept"] and not got["failed"]


def test_while_a_candidate_hangs_in_a_worker(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE.format(at_import=False))
    path = os.pathsep.join([str(PACKAGE), str(tmp_path)])
    search = SEARCH.format(before="import mine", options="worker=True")
    process = child(search, tmp_path / "cache", PYTHONPATH=path, DLBLAS_LOG="info")
    # Users' own candidates come after the built-in defaults: some of those have been measured.
    out, err = interrupt(process, "measured", after_s=2.0)
    assert process.returncode == 0, err
    assert "hangs\n" in err  # the worker's word, passed on: it was inside
    got = told(out)
    assert got["right"] and got["kept"] and "mine_hangs" not in got["failed"]  # type: ignore[operator]


def test_while_a_closure_hangs_in_this_process(tmp_path: Path) -> None:
    process = child(SEARCH.format(before=CLOSURE, options="worker=False"), tmp_path)
    out, err = interrupt(process, "hanging", after_s=0.2)
    assert process.returncode == 0, err
    got = told(out)
    assert got["right"] and got["kept"] and not got["failed"]


def test_while_a_worker_starts(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE.format(at_import=True))
    path = os.pathsep.join([str(PACKAGE), str(tmp_path)])
    search = SEARCH.format(before='import mine; print("begin", flush=True)', options="worker=True")
    process = child(search, tmp_path / "cache", PYTHONPATH=path)
    out, err = interrupt(process, "begin", after_s=1.0)
    assert process.returncode == 0, err
    assert told(out) == {"kept": 0, "right": True, "failed": []}


@pytest.mark.parametrize("where", ["--worker", "--no-worker"])
def test_of_the_command_line(where: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dlblas", "tune", "matmul", "--dims", "M=64,K=512,N=512"]
    process = child([*command, "--seconds", "60", where], tmp_path, DLBLAS_LOG="search")
    assert process.stderr is not None
    for line in process.stderr:
        if ",measured," in line:
            break
    workers = children_of(process.pid)
    assert len(workers) == (where == "--worker")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 130, err
    assert (out, err.splitlines()[-1]) == ("", "dlblas: interrupted")
    assert all(ended(worker) for worker in workers)
    listed = child([sys.executable, "-m", "dlblas", "cache", "ls", "--json"], tmp_path)
    out, err = listed.communicate(timeout=240)
    (key,) = json.loads(out)
    assert key["key"]["op"] == "matmul" and key["rows"] >= 1
