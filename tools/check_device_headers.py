#!/usr/bin/env python3
"""Checks that every device header and kernel compiles alone under NVRTC, for sm_80 and sm_90a, with
no warning and no CUDA or system header; and, if nvcc is found, that nvcc compiles them together.

NVRTC is found beside this Python (the nvidia-cuda-nvrtc package), in DLBLAS_LIBS, CUDA_HOME or the
system. Passed headers are cached in build/checks.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys

import tree

ARCHS = ("sm_80", "sm_90a")
SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12")
KERNEL_DIRS = ("device", "ops", "tests/device")
INDEX = "build/generated/index.cu"
NVCC_OPTIONS = ("-std=c++20", "-arch=sm_90a", "--expt-relaxed-constexpr", "-I.", "-cubin")
OUTSIDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]+<", re.MULTILINE)
HOST_ONLY = re.compile(r"defined\(__CUDACC_RTC__\)")


def find_nvrtc() -> ctypes.CDLL | None:
    listed = os.environ.get("DLBLAS_LIBS", "").split(":")
    sites = [p for p in sys.path if p.endswith("-packages")]
    folders = [pathlib.Path(p) for p in listed if p]
    folders += [p for s in sites for p in sorted(pathlib.Path(s).glob("nvidia/*/lib"))]
    folders.append(pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64")
    for soname in SONAMES:
        for path in [*(str(f / soname) for f in folders if (f / soname).is_file()), soname]:
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
    return None


def compile_alone(nvrtc: ctypes.CDLL, root: pathlib.Path, header: str, arch: str) -> str:
    """What is wrong with the header when included twice; empty if nothing is."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = f'#include "{header}"\n' * 2
    made = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"alone.cu", 0, None, None
    )
    if made:
        return f"{header}: NVRTC makes no program (code {made})"
    # -I covers only the tree; system headers would need their own folders.
    options = [f"-arch={arch}", "-std=c++20", "-default-device", f"-I{root}"]
    code = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*map(str.encode, options))
    )
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    lines = log.value.decode(errors="replace").replace(f"{root}/", "").splitlines()
    bad = [line for line in lines if "error" in line or "warning" in line]
    if not code and not bad:
        return ""
    return f"{header}: does not compile alone for {arch}: {bad[0] if bad else f'code {code}'}"


def device_headers(root: pathlib.Path) -> list[str]:
    """All of device/, the families' kernels, and the headers they share with the host."""
    paths = [*tree.files(root, [".hpp"], ["device"]), *tree.files(root, [".cuh"], KERNEL_DIRS)]
    shared = {str(p.relative_to(root)) for p in paths}
    for path in list(paths):
        shared.update(tree.includes(root, path))
    return sorted(shared)


def check_together(root: pathlib.Path) -> list[str]:
    """Writes build/generated/index.cu, which includes all kernels, for editors (clangd) and for
    nvcc, whose rules differ from NVRTC's: a function is a host function unless marked otherwise."""
    index = root / INDEX
    there = sorted(str(p.relative_to(root)) for p in tree.files(root, [".cuh"], KERNEL_DIRS))
    index.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f'#include "{name}"\n' for name in there)
    if not index.is_file() or index.read_text() != text:
        index.write_text(text)
    home = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path=str(home / "bin"))
    if not nvcc:
        return []

    def compile_index(_: str) -> str:
        command = [nvcc, *NVCC_OPTIONS, "-o", os.devnull, INDEX]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        lines = (done.stdout + done.stderr).splitlines()
        bad = [line for line in lines if "error" in line or "warning" in line]
        return f"{INDEX}: {bad[0] if bad else lines[0]}" if done.returncode or bad else ""

    digest = tree.digest(root, index, f"{nvcc} {NVCC_OPTIONS}")
    return tree.run_cached(root, "index", {INDEX: digest}, compile_index)


def main() -> int:
    root = tree.parser(__doc__).parse_args().root.resolve()
    headers = device_headers(root)
    problems = []
    for header in headers:
        text = tree.without_comments((root / header).read_text())
        if OUTSIDE.search(text) and not HOST_ONLY.search(text):
            problems.append(f"{header}: includes a system header, which NVRTC does not find")
    problems += check_together(root)
    nvrtc = find_nvrtc()
    if nvrtc is None:
        problems.append("NVRTC was not found: run `pip install nvidia-cuda-nvrtc`")
        return tree.report("device headers", problems, "")
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    version = f"NVRTC {major.value}.{minor.value}"
    jobs = {
        f"{header} {arch}": tree.digest(root, root / header, f"{header} {arch} {version}")
        for header in headers
        for arch in ARCHS
    }
    problems += tree.run_cached(
        root, "device_headers", jobs, lambda job: compile_alone(nvrtc, root, *job.split())
    )
    return tree.report(
        "device headers", problems, f"{len(headers)} compile alone for {' and '.join(ARCHS)}"
    )


if __name__ == "__main__":
    sys.exit(main())
