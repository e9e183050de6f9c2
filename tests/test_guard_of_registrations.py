"""tests/conftest.py fails a test that leaves an operator or an implementation registered.

Checked in a separate pytest run that registers some. Read next: tests/conftest.py.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent
CASES = """
import dlblas
def mine(x, weight, eps, weight_offset, y): y[...] = x
dlblas.register("rms_norm", "by_the_module", mine)
def test_an_operator():
    dlblas.register_operator("left_behind(x: f[T]) -> y: like(x)[T]", lambda x: 2 * x)
def test_an_implementation():
    dlblas.register("rms_norm", "mine", mine)
def test_nothing():
    dlblas.register("rms_norm", "passing", mine)
    dlblas.unregister("rms_norm", "passing")
"""


def test_what_is_left_behind_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_it.py").write_text(CASES)
    options = ["-q", "-rA", "-p", "no:cacheprovider", "-p", "conftest"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS), "COLUMNS": "200"},
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if line.startswith("ERROR ")]
    assert len(errors) == 2 and "3 passed" in done.stdout, done.stdout
    assert "::test_an_operator " in errors[0] and "leaves left_behind registered" in errors[0]
    assert "::test_an_implementation " in errors[1]
    assert "leaves rms_norm.mine registered" in errors[1]
