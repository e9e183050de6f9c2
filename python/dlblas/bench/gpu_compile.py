"""Milliseconds that a kernel's first use spends: selected, compiled by NVRTC, loaded.

In a process with an empty store. Kernels of the registry through ``dlblas.warmup``; the WGMMA test
kernel, which no operator serves, through NVRTC itself with the library's options. Used by: gpu.py.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import re
import statistics
import time
from typing import Any

import torch

import dlblas

from . import source

Row = dict[str, Any]

_ROWS, _FEW_ROWS, _WIDTH = 64, 8, 4096
_SAMPLES = 5
_WGMMA_HEADER = "tests/device/wgmma_gemm.cuh"
_WGMMA = "dlblas::wgmma_gemm<dlblas::WgmmaTraits{256, true, false, false, 4}>"
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def _row(op: str | None, name: str, ms: list[float], **more: Any) -> Row:
    middle = statistics.median(ms)
    times = {
        "min_ms": min(ms),
        "median_ms": middle,
        "mad_ms": statistics.median(abs(m - middle) for m in ms),
        "rounds": len(ms),
    }
    return _told(op, name, {"name": name, **times, **more})


def _told(op: str | None, name: str, ours: Row) -> Row:
    return {
        "what": "gpu_compile",
        "op": op,
        "problem": {"kernel": name},
        "dtype": "bf16",
        "method": {"clock": "steady", "statistic": "median of cold compilations"},
        "ours": ours,
        "peers": [],
        "against": None,
        "ratio": None,
    }


def _tensors(
    op: str, dtype: torch.dtype, width: int, rows: int = _ROWS
) -> tuple[torch.Tensor, ...]:
    def made(*shape: int) -> torch.Tensor:
        return torch.empty(shape, device="cuda", dtype=dtype)

    if op == "matmul":
        return made(rows, width), made(width, _WIDTH)
    x, weight = made(rows, width), made(width)
    return (x, weight, made(rows, width)) if op == "add_rms_norm" else (x, weight)


@functools.cache
def _compiler_is_loaded() -> None:
    """The first compilation of a process also loads NVRTC; that is not a kernel's price."""
    dlblas.warmup("rms_norm", *_tensors("rms_norm", torch.float32, 1000))


def implementation(op: str, name: str) -> Row:
    """Kernels of one implementation: both 16-bit dtypes and some widths, whatever compiles anew."""
    _compiler_is_loaded()
    times: list[float] = []
    why = "every kernel was already there"
    widths, dtypes = (_WIDTH, 1024, 8192, 65536, 256, 1 << 22), (torch.bfloat16, torch.float16)
    for rows in (_ROWS, _FEW_ROWS):  # some implementations are for few rows alone
        for width, dtype in itertools.product(widths, dtypes):
            if len(times) == _SAMPLES or (op == "matmul" and width > 8192):
                continue
            tensors = _tensors(op, dtype, width, rows)
            compiled = dlblas.counters()["compiled"]
            begin = time.perf_counter()
            try:
                with dlblas.pinned(op, name):
                    dlblas.warmup(op, *tensors)
            except dlblas.Error as error:
                why = " ".join(str(error).split())[:160]
                continue
            elapsed = (time.perf_counter() - begin) * 1e3
            kernels = dlblas.counters()["compiled"] - compiled
            if kernels:
                times.append(elapsed / kernels)
    if not times:
        return _told(op, name, {"name": name, "missing": why})
    return _row(op, name, times)


def _closure(root: str, name: str, found: dict[str, str]) -> dict[str, str]:
    if name not in found:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            found[name] = file.read()
        for included in _INCLUDE.findall(found[name]):
            _closure(root, included, found)
    return found


def wgmma_test_kernel() -> Row:
    """The smallest whole Hopper GEMM of tests/device, with the options of the library's JIT."""
    name = "wgmma test kernel"
    root = source.tree_root()
    if root is None:
        return _told(None, name, {"name": name, "missing": "not run from a source tree"})
    library = next((r for r in dlblas.info()["libraries"] if r["name"] == "nvrtc"), None)
    if library is None or not library["found"]:
        return _told(None, name, {"name": name, "missing": "no NVRTC"})
    nvrtc = ctypes.CDLL(library["path"])
    headers = _closure(root, _WGMMA_HEADER, {})
    try:
        times = [_compile(nvrtc, headers) for _ in range(_SAMPLES)]
    except RuntimeError as error:
        return _told(None, name, {"name": name, "missing": str(error)[:200]})
    return _row(None, name, times)


def _version(nvrtc: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def _compile(nvrtc: ctypes.CDLL, headers: dict[str, str]) -> float:
    program = ctypes.c_void_p()
    texts = (ctypes.c_char_p * len(headers))(*(t.encode() for t in headers.values()))
    names = (ctypes.c_char_p * len(headers))(*(n.encode() for n in headers))
    options = [b"-std=c++20", b"-default-device", b"-arch=sm_90a", b"--ptxas-options=-v"]
    options += [b"--minimal", b"--no-cache"] if _version(nvrtc) >= (12, 9) else []
    main = f'#include "{_WGMMA_HEADER}"\n'.encode()
    begin = time.perf_counter()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), main, b"dlblas.cu", len(headers), texts, names)
    nvrtc.nvrtcAddNameExpression(program, _WGMMA.encode())
    code = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    elapsed = (time.perf_counter() - begin) * 1e3
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if code != 0:
        raise RuntimeError(f"NVRTC error {code}: {' '.join(log.value.decode().split())}")
    return elapsed
