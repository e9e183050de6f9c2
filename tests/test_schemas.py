"""The schemas of the contracts as torch operators (schema_checks.py), and calls of operators with
such schemas (schema_calls.py), each in its own process, since an operator stays for the process.
Read next: tests/schemas.txt.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parent


@pytest.mark.starts_early
@pytest.mark.parametrize("file", ["schema_checks.py", "schema_calls.py"])
def test_in_a_process_of_its_own(file: str) -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / file)],
        capture_output=True, text=True, timeout=900, cwd=TESTS.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
