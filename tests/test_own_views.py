"""A registered function may keep its arguments: the memory they view lives as long as they do. Each
case runs in its own process, since a failure is a crash.

Read next: own_view_checks.py (the cases), bindings/python/views.cpp, docs/own.md.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
OF_TORCH = ("torch_to_numpy", "torch_to_torch", "numpy_to_torch", "parts_of_torch")
CASES = (
    "numpy", "bf16", "given_out_and_dlpack", "raises", "cycle", "search", "parts", "numbers",
    "reference", "foreign_caller", *OF_TORCH,
)  # fmt: skip


@pytest.mark.attack("arguments that a function keeps")
@pytest.mark.parametrize("case", CASES)
def test_kept_views(case: str, tmp_path: pathlib.Path) -> None:
    if case in OF_TORCH and importlib.util.find_spec("torch") is None:
        pytest.skip("no torch")
    if case == "bf16":
        pytest.importorskip("ml_dtypes")
    run(case, tmp_path)


@pytest.mark.gpu
def test_kept_views_on_a_gpu(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    run("on_a_gpu", tmp_path)


def run(case: str, folder: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "own_view_checks.py"), case],
        env={**os.environ, "DLBLAS_CACHE": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("alive\n"), (
        done.returncode, done.stderr[-2000:],
    )  # fmt: skip
