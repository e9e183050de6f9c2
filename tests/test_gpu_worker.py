"""Measuring in a worker on a GPU, from Python: users' kernels that break a context, never end, or
never compile.

Skipped without a GPU. Read next: tests/cpp/test_gpu_worker.cpp, tests/test_worker.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import dlblas
import pytest

pytestmark = pytest.mark.gpu

PACKAGE = Path(dlblas.__file__).resolve().parent.parent

CANDIDATES = """
import os
import dlblas

WANTED = os.environ["MINE"].split()

HEAD = '''__global__ void k(own::y* y, const own::x* x, const own::weight* w, long T, long C,
                            float eps, float offset, bool cast_before_weight) '''
ROW = "for (long i = blockIdx.x * C; i < (blockIdx.x + 1) * C; ++i) y[i] = "
BODIES = {
    "wild": "{ *(volatile float*)8 = 1; }",
    "nothing": "{}",
    "nan": "{" + ROW + "__int_as_float(0x7fffffff); }",
    "wrong": "{" + ROW + "1.0f; }",
    "past_end": "{" + ROW + "0.0f; y[T * C] = 0.0f; }",
    "endless": '{ for (;;) asm volatile("nanosleep.u32 1000;"); }',
    # A loop of 500 takes NVRTC 13.0 some 20 s, of 2,000 nothing: those it does not unroll.
    "slow": "{ float v = eps;" + 4 * '''
               #pragma unroll
               for (int i = 0; i < 500; ++i) v = v * v + sinf(v + i);''' + " y[0] = v; }",
}
for name in WANTED:
    body = BODIES[name]
    dlblas.register("rms_norm", "mine_" + name, HEAD + body, grid="T", capturable=True)
"""

SEARCH = """
    import json, dlblas, torch
    x = torch.randn(256, 1024, device="cuda", dtype=torch.bfloat16)
    w = torch.ones(1024, device="cuda", dtype=torch.bfloat16)
    before = x.float().sum().item()
    import candidates
    report = dlblas.tune("rms_norm", (x, w), seconds={seconds})
    failures = {{e["implementation"]: e.get("failure", "") for e in report["evaluated"]}}
    torch.cuda.synchronize()
    y = dlblas.rms_norm(x, w)
    print(json.dumps({{
        "place": report["measured_in"], "winner": report["winner"]["implementation"],
        "failures": {{k: v for k, v in failures.items() if k.startswith("mine_")}},
        "alive": x.float().sum().item() == before and dlblas.verify("rms_norm", (x, w), y).ok,
        "cache": report["cache"], "elapsed": report["elapsed_s"],
    }}))
"""


def search(tmp_path: Path, mine: str, seconds: float) -> dict[str, Any]:
    """The failures of these candidates; what holds whatever they do is asserted."""
    (tmp_path / "candidates.py").write_text(CANDIDATES)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SEARCH).format(seconds=seconds)],
        env={
            **os.environ,
            "MINE": mine,
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
    # A driver takes up to a second to end what a GPU was doing; no clock of ours knows.
    assert got["elapsed"] <= 1.1 * seconds + 2
    failures: dict[str, Any] = got["failures"]
    return failures


def test_users_kernels_that_break_a_context_or_never_end_cost_a_worker_each(
    tmp_path: Path,
) -> None:
    assert search(tmp_path, "wild nothing nan wrong past_end endless", 20) == {
        "mine_wild": "illegal_access",
        "mine_nothing": "unwritten",
        "mine_nan": "wrong_result",
        "mine_wrong": "wrong_result",
        "mine_past_end": "out_of_bounds",
        "mine_endless": "timeout",
    }


def test_a_kernel_that_takes_for_ever_to_compile_costs_a_share_of_the_budget(
    tmp_path: Path,
) -> None:
    assert search(tmp_path, "slow", 12) == {"mine_slow": "compile_timeout"}
