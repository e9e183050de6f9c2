"""What a profiler sees of a call: its implementation and configuration, if profiling is on.

Read next: src/core/ranges.hpp, python/dlblas/_ranges.py.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import dlblas
import numpy as np
import pytest
from dlblas import _ranges

PACKAGE = pathlib.Path(dlblas.__file__).parent.parent

# Stands for NVTX's library, which does nothing without a profiler: this one prints its calls.
NVTX = r"""
#include <cstdio>
extern "C" int nvtxRangePushA(const char* name) { return std::printf("push %s\n", name); }
extern "C" int nvtxRangePop() { std::puts("pop"); std::fflush(stdout); return 0; }
"""
CALL = """
import dlblas, numpy as np
x, w = np.ones((3, 64), np.float32), np.ones(64, np.float32)
dlblas.rms_norm(x, w)
try: dlblas.rms_norm(x, w[1:])
except dlblas.errors.ShapeMismatchError: pass
"""


def child(folder: pathlib.Path, **variables: str) -> list[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("DLBLAS_LOG", "NVTX_INJECTION64_PATH")}
    env.update(PYTHONPATH=str(PACKAGE), DLBLAS_LIBS=str(folder), **variables)
    done = subprocess.run(
        [sys.executable, "-c", CALL], env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def nvtx(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("nvtx")
    text = folder / "nvtx.cpp"
    text.write_text(NVTX)
    made = folder / "libnvtx3interop.so.1"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", made, text], check=True, timeout=240)
    return folder


@pytest.mark.parametrize("asked", [{"NVTX_INJECTION64_PATH": "/x.so"}, {"DLBLAS_LOG": "nvtx"}])
def test_nvtx_has_a_range_per_call(nvtx: pathlib.Path, asked: dict[str, str]) -> None:
    pushed, popped = child(nvtx, **asked)
    assert pushed.startswith("push dlblas::rms_norm cpu_") and popped == "pop"
    assert "store=" in pushed and "T=4 C=64" in pushed and "f32" in pushed


def test_without_a_listener(nvtx: pathlib.Path) -> None:
    assert child(nvtx) == []
    assert child(nvtx, NVTX_INJECTION64_PATH="") == []


def test_a_missing_library_is_told_once() -> None:
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), "DLBLAS_LOG": "nvtx"}
    code = "import sys; sys.modules['torch'] = None\n" + CALL * 2
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0
    if "no NVTX library" in done.stderr:  # the machine may have one
        assert done.stderr.count("no NVTX library") == 1 and "DLBLAS_LIBS" in done.stderr


def test_torchs_profiler_names_the_implementation() -> None:
    torch = pytest.importorskip("torch")
    x, w = torch.ones(3, 64), torch.ones(64)

    def names(profiler: object) -> list[str]:
        return [e.name for e in profiler.events() if e.name.startswith("dlblas::")]  # type: ignore

    cpu = [torch.profiler.ProfilerActivity.CPU]
    torch.ops.dlblas.rms_norm(x, w)
    assert _ranges._open == 0
    with torch.profiler.profile(activities=cpu) as seen:
        dlblas.rms_norm(x, w)
        torch.ops.dlblas.rms_norm(x, w)
        with dlblas.profiler_ranges():
            dlblas.softmax(np.ones((2, 8), np.float32))
        with pytest.raises(dlblas.errors.ShapeMismatchError):
            dlblas.rms_norm(x, w[1:])
    said = [name for name in names(seen) if "=" in name]
    assert [name.split(" cpu_")[0] for name in said] == [
        "dlblas::rms_norm", "dlblas::rms_norm", "dlblas::softmax",
    ]  # fmt: skip
    assert all("store=" in name and ",f32," in name for name in said)
    assert _ranges._open == 0
    with torch.profiler.profile(
        activities=cpu, schedule=torch.profiler.schedule(wait=1, warmup=1, active=1)
    ) as later:
        for _ in range(3):
            torch.ops.dlblas.rms_norm(x, w)
            later.step()
    assert len([name for name in names(later) if "store=" in name]) == 1
    assert _ranges._open == 0


def test_a_profiler_that_runs_before_dlblas_is_followed() -> None:
    pytest.importorskip("torch")
    code = """
import torch
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
    import dlblas
    dlblas.rms_norm(torch.ones(3, 64), torch.ones(64))
print(sum("store=" in event.name for event in seen.events()))
"""
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr
