"""Rounding modes and flushed denormals, set by the calling thread or by a candidate: they change no
bit of a result and no candidate's record, and a call leaves the caller's settings as they were.

Each in a process of its own. Read next: src/core/plain_floats.hpp.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import subprocess
import sys
from typing import Any

import dlblas
import pytest

pytest.importorskip("numpy")
pytestmark = [
    pytest.mark.attack("floating-point environments of callers and candidates"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="sets x86-64's control bits"),
]
PACKAGE = pathlib.Path(dlblas.__file__).parent.parent
TESTS = pathlib.Path(__file__).resolve().parent

CALLER = """
import ctypes, json, sys
import dlblas, numpy as np
libm, mode = ctypes.CDLL("libm.so.6"), {mode}
def control(bits=None):
    state = (ctypes.c_uint32 * 8)()  # fenv_t: MXCSR is the last word
    libm.fegetenv(state)
    if bits is not None:
        state[7] = state[7] & ~0xe040 | bits
        libm.fesetenv(state)
    return state[7] & 0xe040
rng = np.random.default_rng(0)
x = (rng.standard_normal((2048, 1024)) * 1e-30).astype("f")
w, a = np.full(1024, 1e-12, "f"), rng.standard_normal((300, 400)).astype("f")
def bits():
    return [y.tobytes() for y in (
        dlblas.rms_norm(x, w, 1e-6), dlblas.softmax(a), dlblas.matmul(a, a.T), dlblas.gelu(a))]
def plain(f):
    kept = control()
    control(0)
    made = f()
    control(kept)
    return made
control(mode)
mine = bits()
kept = control() == mode
judged = dlblas.verify("softmax", (a,), np.frombuffer(mine[1], "f").reshape(a.shape).copy()).ok
report = dlblas.tune("rms_norm", (x[:5], w), seconds=30, force=True, worker=False)
failed = [e["implementation"] for e in report["evaluated"] if "failure" in e]
source = dlblas.explain("rms_norm", x[:5], w).as_dict()["source"]
again = control() == mode
same = [left == right for left, right in zip(mine, plain(bits))]
print(json.dumps([kept, judged, failed, source, again, same]))
"""


def child(program: str, **env: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(PACKAGE), str(TESTS))), **env},
        timeout=480,
    )  # fmt: skip
    assert done.returncode == 0 and "not valid" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "mode", [0x4000, 0x2000, 0x6000, 0x8040], ids=["up", "down", "zero", "flushed denormals"]
)
def test_what_the_caller_has_set(mode: int, threads: int, tmp_path: pathlib.Path) -> None:
    """The library's own threads have another mode, and with the caller's mode records would not
    read back."""
    program = CALLER.format(mode=mode)
    told = child(program, DLBLAS_NUM_THREADS=str(threads), DLBLAS_CACHE=str(tmp_path))
    assert told == [True, True, [], "store", True, [True] * 4]


CANDIDATE = """
import json
import dlblas, numpy as np
import own_rounding_module as module
x, w = np.random.default_rng(0).standard_normal((256, 1024)).astype("f"), np.ones(1024, "f")
report = dlblas.tune("rms_norm", (x, w), seconds=3, worker={worker})
failed = [e["implementation"] for e in report["evaluated"] if "failure" in e]
with dlblas.pinned("rms_norm", "rounds_up"):
    dlblas.rms_norm(x, w)
print(json.dumps([report["measured_in"].split()[0], failed, module.LIBM.fegetround()]))
"""


@pytest.mark.parametrize("worker", [True, False], ids=["in a worker", "here"])
def test_what_a_candidate_leaves_is_not_its_rivals(worker: bool, tmp_path: pathlib.Path) -> None:
    """Candidates measured after it used to fail and were recorded as wrong."""
    where, failed, _ = child(CANDIDATE.format(worker=worker), DLBLAS_CACHE=str(tmp_path))
    assert (where == "worker") == worker and failed == []
