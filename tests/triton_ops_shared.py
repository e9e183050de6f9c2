"""Shared by the tests of dlblas.triton_ops: a fresh process, and an f16 tensor on a GPU."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import torch
from dlblas import errors

HALF = torch.float16
HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(errors.__file__)))


def environment(**over: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([PACKAGE, *sys.path]), **over}


def python(code: str, **over: str) -> str:
    """The standard output of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(**over), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def gpu(*shape, dtype=HALF):
    return torch.empty(shape, dtype=dtype, device="cuda")
