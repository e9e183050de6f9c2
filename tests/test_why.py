"""``dlblas info --why rms_norm`` on machines that lack something: five golden texts, and one for a
machine that lacks nothing.

The machines are built from stubs (tests/stubs): a driver of CUDA 12.8 with one GPU, compilers that
only have a version, a package folder that says torch is installed; the real ones are hidden.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
STUBS = ROOT / "tests" / "stubs"
PACKAGE = os.environ.get("DLBLAS_TEST_PYTHON", str(ROOT / "build" / "python"))

ALL_WELL = """\
rms_norm on this machine
  cpu    yes  baseline, 1 thread: {cpu} implementations of rms_norm
  gpu    yes  driver 12.8, cuda:0 Stub GPU (sm_90): {cuda} implementations of rms_norm
  nvrtc  yes  12.8
  torch  yes  2.10.0
  cache  yes  {cache}/v1
"""
NO_DRIVER = """\
rms_norm on this machine
  cpu    yes  baseline, 1 thread: {cpu} implementations of rms_norm
  gpu    no   no NVIDIA driver was found: libcuda.so.1: cannot open shared object file: No such \
file or directory; {cuda} implementations of rms_norm can run on none
              to do: install NVIDIA's driver; start a container with the GPU (docker run --gpus all)
  nvrtc  yes  12.8
  torch  yes  2.10.0
  cache  yes  {cache}/v1
"""
NO_NVRTC = """\
rms_norm on this machine
  cpu    yes  baseline, 1 thread: {cpu} implementations of rms_norm
  gpu    yes  driver 12.8, cuda:0 Stub GPU (sm_90): {cuda} implementations of rms_norm
  nvrtc  no   NVRTC was not found (libnvrtc.so.13: cannot open shared object file: No such file or \
directory; libnvrtc.so.12: cannot open shared object file: No such file or directory); kernels \
that no cache holds cannot be compiled
              to do: pip install nvidia-cuda-nvrtc, or name its folder in DLBLAS_LIBS
  torch  yes  2.10.0
  cache  yes  {cache}/v1
"""
TOO_NEW_NVRTC = """\
rms_norm on this machine
  cpu    yes  baseline, 1 thread: {cpu} implementations of rms_norm
  gpu    yes  driver 12.8, cuda:0 Stub GPU (sm_90): {cuda} implementations of rms_norm
  nvrtc  no   {stubs}/libnvrtc.so.13 is NVRTC 13.0, newer than the driver's CUDA 12; kernels that \
no cache holds cannot be compiled
              to do: pip install nvidia-cuda-nvrtc-cu12
  torch  yes  2.10.0
  cache  yes  {cache}/v1
"""
NO_TORCH = """\
rms_norm on this machine
  cpu    yes  baseline, 1 thread: {cpu} implementations of rms_norm
  gpu    yes  driver 12.8, cuda:0 Stub GPU (sm_90): {cuda} implementations of rms_norm
  nvrtc  yes  12.8
  torch  no   not installed; NumPy arrays and whatever has DLPack are taken without it
              to do: pip install torch (2.10 or later), for its tensors
  cache  yes  {cache}/v1
"""
REFUSED_CACHE = """\
rms_norm on this machine
  cpu    yes  baseline, 1 thread: {cpu} implementations of rms_norm
  gpu    yes  driver 12.8, cuda:0 Stub GPU (sm_90): {cuda} implementations of rms_norm
  nvrtc  yes  12.8
  torch  yes  2.10.0
  cache  no   in memory only, lost when the process ends: {cache}/v1 is writable by others; \
expected mode 0700, got 0777
              to do: name a folder that only you can write in DLBLAS_CACHE
"""


class Machine(NamedTuple):
    """What it has: library files (stubs), torch's version, the mode of the cache folder."""

    libraries: tuple[str, ...] = ("libcuda.so.1", "libnvrtc.so.12")
    torch: str = "2.10.0"
    cache_mode: int = 0o700


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("stubs")
    for name, source, *defines in (
        ("hide.so", "hide.cpp"),
        ("libcuda.so.1", "driver.cpp"),
        ("libnvrtc.so.12", "nvrtc.cpp", "-DMAJOR=12", "-DMINOR=8"),
        ("libnvrtc.so.13", "nvrtc.cpp", "-DMAJOR=13", "-DMINOR=0"),
    ):
        command = [os.environ.get("CXX", "c++"), "-shared", "-fPIC", "-O1", *defines]
        command += [str(STUBS / source), "-o", str(folder / name), "-ldl"]
        subprocess.run(command, check=True, timeout=480)
    return folder


def ask(
    machine: Machine, built: pathlib.Path, here: pathlib.Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """Runs ``dlblas info --why rms_norm`` there; the interpreter has only the stub's packages."""
    libraries, packages, cache = here / "libraries", here / "packages", here / "cache"
    for folder in (libraries, packages, cache, cache / "v1"):
        folder.mkdir(mode=0o700)
    (cache / "v1").chmod(machine.cache_mode)
    for name in machine.libraries:
        (libraries / name).symlink_to(built / name)
    if machine.torch:
        (packages / "torch").mkdir()
        (packages / "torch" / "__init__.py").write_text("raise ImportError('broken on purpose')\n")
        info = packages / f"torch-{machine.torch}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: torch\nVersion: {machine.torch}\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DLBLAS_", "PYTHON", "CUDA"))}
    env |= {
        "PYTHONPATH": f"{PACKAGE}:{packages}",
        "LD_PRELOAD": str(built / "hide.so"),
        "STUBS": str(libraries),
        "DLBLAS_LIBS": str(libraries),
        "DLBLAS_CACHE": str(cache),
        "DLBLAS_CPU_ISA": "baseline",
        "DLBLAS_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-S", "-m", "dlblas", "info", "--why", "rms_norm", *words],
        capture_output=True,
        text=True,
        timeout=480,
        env=env,
    )


def counts() -> dict[str, int]:
    import dlblas

    (row,) = (op for op in dlblas.info()["operators"] if op["name"] == "rms_norm")
    backends = [impl["backend"] for impl in row["implementations"]]
    return {backend: backends.count(backend) for backend in ("cpu", "cuda")}


MACHINES = {
    "all_well": (Machine(), ALL_WELL),
    "no_driver": (Machine(libraries=("libnvrtc.so.12",)), NO_DRIVER),
    "no_nvrtc": (Machine(libraries=("libcuda.so.1",)), NO_NVRTC),
    "too_new_nvrtc": (Machine(libraries=("libcuda.so.1", "libnvrtc.so.13")), TOO_NEW_NVRTC),
    "no_torch": (Machine(torch=""), NO_TORCH),
    "refused_cache": (Machine(cache_mode=0o777), REFUSED_CACHE),
}


@pytest.mark.parametrize("name", MACHINES)
def test_says_what_the_machine_lacks(
    name: str, built: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    machine, golden = MACHINES[name]
    done = ask(machine, built, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    said, _, cases = done.stdout.replace("/hidden/", "").partition("rms_norm(")
    places = {"cache": tmp_path / "cache", "stubs": tmp_path / "libraries"}
    assert said == golden.format(**counts(), **places)
    assert re.search(r"^  > +\w+ +yes", cases, re.M), cases  # and something serves it nevertheless


def test_an_old_torch_is_named(built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = ask(Machine(torch="2.9.1+cpu"), built, tmp_path, "--json")
    found: dict[str, Any] = {f["name"]: f for f in json.loads(done.stdout)["machine"]}
    assert not found["torch"]["used"]
    assert found["torch"]["text"] == "2.9.1+cpu is too old; expected 2.10 or later"
    assert found["torch"]["remedy"] == "pip install --upgrade torch"
