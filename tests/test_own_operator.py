"""Users' own operators: own_operator_checks.py, in a process of its own, since an operator stays
for the process and other tests look at all there are. Read next: own_operator_checks.py.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

CHECKS = pathlib.Path(__file__).resolve().parent / "own_operator_checks.py"


def run(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(CHECKS)],
        capture_output=True, text=True, timeout=280, cwd=CHECKS.parent.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    return done.stdout


def test_on_the_cpu() -> None:
    pytest.importorskip("numpy")
    assert " passed" in run("-m", "not gpu")


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    pytest.importorskip("torch")
    assert "1 passed" in run("-m", "gpu")
