"""The first call of a user's candidate in this process, and a worker's imports, do not count
against the search's budget, and are reported before they begin.

Read next: src/tuner/in_process.cpp, test_own_worker.py (first calls in a worker).
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import warnings
from typing import Any

import dlblas
import numpy as np
import pytest


def test_a_slow_first_call_takes_nothing_from_the_others() -> None:
    """As with torch.compile; the function exists in this process only."""
    called: list[Any] = []
    told: list[tuple[str, bool]] = []

    def watch(event: Any) -> None:
        if event.kind == "first_call":
            told.append((event.implementation, bool(called)))
            assert event.milliseconds == -1

    def slow_once(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        if not called:
            called.append(time.sleep(1.5))
        rms = np.sqrt(np.mean(x.astype(np.float64) ** 2, -1, keepdims=True) + eps)
        y[...] = x / rms * (weight + weight_offset)

    x, w = np.ones((4, 64), np.float32), np.ones(64, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is measured in this process
        own = dlblas.register("rms_norm", "slow_once", slow_once)
        try:
            report = dlblas.tune("rms_norm", (x, w), seconds=1.0, progress=watch)
        finally:
            dlblas.unregister("rms_norm", "slow_once")
    assert own is not None and called
    assert told == [("slow_once", False)]
    measured = {row["implementation"] for row in report.evaluated}
    assert "slow_once" in measured
    assert measured >= {r["implementation"] for r in report.candidates if r["takes_part"]}
    assert len(report.evaluated) > 3 * len(measured)  # and not their defaults alone


SLOW_MODULE = """
import time
time.sleep(3)  # as long as torch may take
import dlblas, numpy as np

@dlblas.register("rms_norm", "of_a_slow_module")
def norm(x, weight, eps, weight_offset, y):
    rms = np.sqrt(np.mean(x.astype(np.float64) ** 2, -1, keepdims=True) + eps)
    y[...] = x / rms * (weight + weight_offset)
"""
TUNE = """
import json, time, numpy as np, dlblas, slow_module
told = []
x, w = np.ones((4, 64), np.float32), np.ones(64, np.float32)
report = dlblas.tune(
    "rms_norm", (x, w), seconds=1, progress=lambda e: told.append((e.kind, e.note, e.elapsed_s))
)
print(json.dumps([told, len(report.evaluated), report["planned"], dict(report)]))
"""


def child(program: str | pathlib.Path, folder: pathlib.Path, **more: str) -> Any:
    """The JSON that a program text or a script prints; it can import modules in the folder."""
    started = ["-c", program] if isinstance(program, str) else [str(program)]
    where = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *started], capture_output=True, text=True, timeout=900,
        env={**os.environ, "PYTHONPATH": where, "DLBLAS_CACHE": str(folder / "cache"),
             "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
             "DLBLAS_FIRST_CALL_SECONDS": "240", **more},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_a_worker_imports_takes_nothing_from_the_search(tmp_path: pathlib.Path) -> None:
    (tmp_path / "slow_module.py").write_text(SLOW_MODULE)
    told, measured, planned, report = child(TUNE, tmp_path)
    assert report["measured_in"] == "worker" and report["elapsed_s"] > 3
    assert told[0][:2] == ["worker", "it imports your modules"]
    assert told[1][0] == "start" and told[1][2] < 1  # of a budget of 1 s
    assert planned > 20 and measured > 0.9 * planned, (measured, planned)


SLOW_SCRIPT = """
import json, sys
import numpy as np, dlblas
import slow_module_of_its_own

@dlblas.register("rms_norm", "by_value")
def norm(x, weight, eps, weight_offset, y):
    rms = np.sqrt(np.mean(x.astype(np.float64) ** 2, -1, keepdims=True) + eps)
    y[...] = x / rms * (weight + weight_offset) * slow_module_of_its_own.ONE

told = []
x, w = np.ones((4, 64), np.float32), np.ones(64, np.float32)
report = dlblas.tune(
    "rms_norm", (x, w), seconds=1, progress=lambda e: told.append((e.kind, e.note, e.elapsed_s))
)
print(json.dumps([told, len(report.evaluated), report["planned"], dict(report)]))
"""


def test_what_a_function_by_value_imports_takes_nothing_either(tmp_path: pathlib.Path) -> None:
    """A script without a guard, or a notebook: the function is sent by value, and imports what it
    uses."""
    (tmp_path / "slow_module_of_its_own.py").write_text("import time; time.sleep(3); ONE = 1.0")
    script = tmp_path / "unguarded.py"
    script.write_text(SLOW_SCRIPT)
    told, measured, planned, report = child(script, tmp_path)
    assert report["measured_in"] == "worker" and report["elapsed_s"] > 3
    assert told[0][:2] == ["worker", "it imports your modules"]
    assert told[1][0] == "start" and told[1][2] < 1  # of a budget of 1 s
    assert planned > 20 and measured > 0.9 * planned, (measured, planned)


SLOW_ONCE = """
import time, dlblas, numpy as np
called = []

@dlblas.register("rms_norm", "slow_once")
def norm(x, weight, eps, weight_offset, y):
    if not called:
        called.append(time.sleep(4))
    rms = np.sqrt(np.mean(x.astype(np.float64) ** 2, -1, keepdims=True) + eps)
    y[...] = x / rms * (weight + weight_offset)
"""
TUNE_SLOW_ONCE = """
import json, numpy as np, dlblas, slow_once
x, w = np.ones((4, 64), np.float32), np.ones(64, np.float32)
report = dlblas.tune("rms_norm", (x, w), seconds=0.5, progress=False)
print(json.dumps(report.candidates))
"""


def test_the_seconds_of_a_first_call_are_a_variable(tmp_path: pathlib.Path) -> None:
    """A first call that takes longer fails, and the next search tries it again."""
    (tmp_path / "slow_once.py").write_text(SLOW_ONCE)
    for seconds, measured in [("1", 0), ("60", 1)]:
        rows = child(TUNE_SLOW_ONCE, tmp_path, DLBLAS_FIRST_CALL_SECONDS=seconds)
        (row,) = (c for c in rows if c["implementation"] == "slow_once")
        assert (row["measured"], row["failed"]) == (measured, 1 - measured), row


COMPILED_MODULE = """
import dlblas, torch

@torch.compile
def _norm(x, weight, eps, weight_offset):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * (weight + weight_offset)

@dlblas.register("rms_norm", "compiled", devices="cpu", arrays="torch")
def norm(x, weight, eps, weight_offset, y):
    y.copy_(_norm(x, weight, eps, weight_offset))
"""
TUNE_COMPILED = """
import json, numpy as np, dlblas, compiled_module
x, w = np.ones((4, 64), np.float32), np.ones(64, np.float32)
report = dlblas.tune("rms_norm", (x, w), seconds=2, progress=False)
again = dlblas.get_op("rms_norm", (x, w), seconds=2, progress=False).report
print(json.dumps([dict(report), again.source]))
"""


# The kernel is in Inductor's cache before the search, whose time a C++ compiler would take.
COMPILE = """
import torch, compiled_module
compiled_module._norm(torch.ones(4, 64), torch.ones(64), 1e-6, 0.0)
print(0)
"""


def test_a_compiled_function_competes(tmp_path: pathlib.Path) -> None:
    """Importing torch and Inductor takes longer than the whole budget."""
    pytest.importorskip("torch")
    if not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("torch.compile needs a C++ compiler on the CPU: apt-get install g++")
    (tmp_path / "compiled_module.py").write_text(COMPILED_MODULE)
    child(COMPILE, tmp_path)
    report, again = child(TUNE_COMPILED, tmp_path)
    rows = {c["implementation"]: c for c in report["candidates"]}
    assert rows["compiled"]["measured"] == 1 and rows["compiled"]["failed"] == 0, rows
    assert report["measured_in"] == "worker" and report["elapsed_s"] > report["budget_s"]
    assert len(report["evaluated"]) > 0.9 * report["planned"]
    assert again == "store"
