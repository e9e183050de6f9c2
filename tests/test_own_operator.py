"""Users' own operators: each own_*_checks.py runs in its own process, since an operator stays for
the process and other tests look at every registered one. Read next: own_operator_checks.py.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

CHECKS = pathlib.Path(__file__).resolve().parent / "own_operator_checks.py"
VALUES = CHECKS.with_name("own_value_checks.py")
JUDGE = CHECKS.with_name("own_judge_checks.py")


def run(*options: str, checks: pathlib.Path = CHECKS) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(checks)],
        capture_output=True, text=True, timeout=900, cwd=CHECKS.parent.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    return done.stdout


@pytest.mark.starts_early
@pytest.mark.parametrize("checks", [CHECKS, VALUES], ids=["operators", "values"])
def test_on_the_cpu(checks: pathlib.Path) -> None:
    pytest.importorskip("numpy")
    assert " passed" in run("-m", "not gpu", checks=checks)


@pytest.mark.starts_early
def test_with_a_judge() -> None:
    pytest.importorskip("numpy")
    assert " passed" in run(checks=JUDGE)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("checks", "passed"), [(CHECKS, 1), (VALUES, 3)], ids=["operators", "values"]
)
def test_on_a_gpu(checks: pathlib.Path, passed: int) -> None:
    pytest.importorskip("torch")
    assert f"{passed} passed" in run("-m", "gpu", checks=checks)


THREADS = """
import threading, time, numpy as np, dlblas
from dlblas import _functions
from dlblas.own import _source
if with_torch: import torch
add, note, missing = _functions.add_functions, _source.note, []
def slow(entries):
    made = add(entries)
    time.sleep(0.02)  # another thread finds these known, and not there yet
    return made
def slow_note(*row):
    time.sleep(0.01)  # another thread brings what this one has registered
    note(*row)
_functions.add_functions, _source.note = slow, slow_note
def register(me):
    for i in range(8):
        name = f"threads_{me}_{i}"
        made = dlblas.register_operator(f"{name}(x: f[*T, C]) -> y: like(x)[*T, C]", lambda x: x)
        there = getattr(dlblas, name, None) is made and dlblas.__all__.count(name) == 1
        if with_torch:
            there = there and hasattr(torch.ops.dlblas, name + "_out")
        missing.extend([] if there else [name])
threads = [threading.Thread(target=register, args=(me,)) for me in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(missing, len([n for n in dlblas.list_operators() if n.startswith("threads_")]))
"""


@pytest.mark.parametrize("with_torch", [False, True])
def test_what_threads_register_is_there_when_they_return(with_torch: bool) -> None:
    if with_torch:
        pytest.importorskip("torch")
    code = f"with_torch = {with_torch}\n{THREADS}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=480,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout == "[] 32\n", done.stderr
