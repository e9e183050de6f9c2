"""Kernels without a GPU: every CUDA implementation compiles for sm_80 and sm_90a without warnings
or spills (in a sample, those of half of the operators for one of them, by the seed), and every
device header compiles alone. See tools/compile_all.cpp, which is built beside the C++ tests, and
tools/check_device_headers.py."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import site
import subprocess
import sys
import sysconfig

import pytest
from depth import depth_of, some
from levels import ON_GPUS

# One pytest-xdist worker runs all of these, so that what they share is built once.
pytestmark = pytest.mark.xdist_group("compile_all")
ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(os.environ.get("DLBLAS_COMPILE_ALL", ROOT / "build" / "dlblas_compile_all"))


def compile_all(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    sites = {sysconfig.get_path("platlib"), *site.getsitepackages()}
    folders = [str(p) for s in sorted(sites) for p in pathlib.Path(s).glob("nvidia/*/lib")]
    libs = ":".join(filter(None, [os.environ.get("DLBLAS_LIBS", ""), *folders]))
    return subprocess.run(
        [PROGRAM, *arguments],
        env={**os.environ, "DLBLAS_LIBS": libs, **env},
        capture_output=True,
        text=True,
        timeout=1500,
    )


@pytest.fixture(scope="module")
def report() -> str:
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is not built: run `make build`, or name it in DLBLAS_COMPILE_ALL")
    depth = depth_of()
    half = [word for op in some(ON_GPUS, len(ON_GPUS) // 2, "compile") for word in ("--op", op)]
    sample = ["--each", "1", "--sizes", "16", "--turn", "--seed", str(depth.seed), *half]
    done = compile_all(*([] if depth.full else sample))
    print(done.stdout)
    if "NVRTC was not found" in done.stderr:
        pytest.fail(f"the kernels need NVRTC to compile: {done.stderr}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_implementation_compiles_clean(report: str) -> None:
    total = re.search(r"^compile_all: (\d+) of (\d+) implementations, (\d+) kernels", report, re.M)
    assert total and total[1] == total[2], report
    assert int(total[3]) >= int(total[1]) > 0, report


def test_the_table_has_both_architectures(report: str) -> None:
    rows = re.findall(r"^(\S+\.\S+) +(sm_80|sm_90) +\d+ of \d+ ", report, re.M)
    assert {arch for _, arch in rows} == {"sm_80", "sm_90"}, report


@pytest.mark.parametrize("arch", ["86", "89"])
def test_what_runs_on_sm_80_compiles_for_those_after_it(arch: str) -> None:
    """These have less shared memory and, on sm_89, f8: the same kernels with other choices."""
    drawn = [] if depth_of().full else some(ON_GPUS, 12, arch)
    ops = [word for op in drawn for word in ("--op", op)]
    done = compile_all(arch, "--each", "1", "--sizes", "8", *ops)
    total = re.search(r"^compile_all: (\d+) of (\d+) implementations, (\d+) ", done.stdout, re.M)
    assert done.returncode == 0 and total, done.stdout + done.stderr
    assert f"sm_{arch}" in done.stdout and int(total[1]) == int(total[2]) > 0, done.stdout


def test_what_does_not_compile_is_named() -> None:
    some = ["--each", "1", "--sizes", "8"]
    done = compile_all("90", *some, DLBLAS_JIT="0")  # with an empty cache: nothing compiles
    assert done.returncode == 1
    assert "FAILED jit: kernel dlblas::" in done.stdout
    assert "DLBLAS_JIT=0 forbids" in done.stdout


def test_a_warning_fails(tmp_path: pathlib.Path) -> None:
    """The tree's headers, read live, with an unused variable added to one of them."""
    shutil.copytree(ROOT / "device", tmp_path / "device")
    numeric = tmp_path / "device" / "numeric.cuh"
    planted = "namespace dlblas {\n__device__ inline void planted() { int unused = 1; }\n}\n"
    numeric.write_text(numeric.read_text() + planted)
    done = compile_all("90", "--each", "1", "--op", "rms_norm", DLBLAS_SOURCE_DIR=str(tmp_path))
    assert done.returncode == 1
    assert "never referenced" in done.stdout


CLEAN = "#pragma once\nnamespace dlblas {\n__device__ inline int two() { return 2; }\n}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CLEAN, ""),
        (CLEAN.replace("#pragma once", ""), "already been defined"),
        (CLEAN.replace("return 2", "int unused; return 2"), "never referenced"),
        (CLEAN.replace("return 2", "return three()"), 'identifier "three" is undefined'),
        (CLEAN.replace("namespace", "#include <cuda_fp16.h>\nnamespace", 1), "system header"),
        (CLEAN + '__global__ void k() { asm("griddepcontrol.wait;"); }\n', "for sm_80"),
    ],
    ids=["clean", "no_pragma_once", "warning", "error", "system_header", "arch"],
)
def test_device_headers(tmp_path: pathlib.Path, text: str, problem: str) -> None:
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "two.cuh").write_text(text)
    tool = [sys.executable, ROOT / "tools" / "check_device_headers.py", "--root", tmp_path]
    done = subprocess.run(tool, capture_output=True, text=True)
    assert done.returncode == (1 if problem else 0), done.stdout + done.stderr
    assert problem in done.stderr
