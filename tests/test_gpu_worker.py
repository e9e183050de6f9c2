"""Measuring in a worker on a GPU, from Python: users' kernels that break a context or never end.

Skipped without a GPU. Read next: tests/cpp/test_gpu_worker.cpp, tests/test_worker.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import dlblas
import pytest

pytestmark = pytest.mark.gpu

PACKAGE = Path(dlblas.__file__).resolve().parent.parent

CANDIDATES = """
import dlblas

HEAD = '''__global__ void k(own::y* y, const own::x* x, const own::weight* w, long T, long C,
                            float eps, float offset, bool cast_before_weight) '''
BODIES = {
    "wild": "{ *(volatile float*)8 = 1; }",
    "endless": '{ for (;;) asm volatile("nanosleep.u32 1000;"); }',
    "nothing": "{}",
}
for name, body in BODIES.items():
    dlblas.register("rms_norm", "mine_" + name, HEAD + body, grid="T", capturable=True)
"""

SEARCH = """
    import json, dlblas, torch
    x = torch.randn(256, 1024, device="cuda", dtype=torch.bfloat16)
    w = torch.ones(1024, device="cuda", dtype=torch.bfloat16)
    before = x.float().sum().item()
    import candidates
    report = dlblas.tune("rms_norm", (x, w), seconds=15)
    failures = {e["implementation"]: e.get("failure", "") for e in report["evaluated"]}
    torch.cuda.synchronize()
    y = dlblas.rms_norm(x, w)
    print(json.dumps({
        "place": report["measured_in"], "winner": report["winner"]["implementation"],
        "failures": {k: v for k, v in failures.items() if k.startswith("mine_")},
        "alive": x.float().sum().item() == before and dlblas.verify("rms_norm", (x, w), y).ok,
        "cache": report["cache"], "elapsed": report["elapsed_s"],
    }))
"""


def test_users_kernels_that_break_a_context_or_never_end_cost_a_worker_each(
    tmp_path: Path,
) -> None:
    (tmp_path / "candidates.py").write_text(CANDIDATES)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SEARCH)],
        env={
            **os.environ,
            "DLBLAS_CACHE": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join([str(PACKAGE), str(tmp_path)]),
        },
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout.splitlines()[-1])
    assert got["place"] == "worker" and got["alive"] and got["cache"] == "cold"
    assert not got["winner"].startswith("mine_")
    assert got["failures"] == {
        "mine_wild": "illegal_access",
        "mine_endless": "timeout",
        "mine_nothing": "unwritten",
    }
