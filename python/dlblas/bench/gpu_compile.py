"""Milliseconds of a kernel's first use: selection, compilation by NVRTC, loading.

Kernels of the registry go through ``dlblas.warmup``, in fresh processes with an empty store
(``python -m dlblas.bench.gpu_compile``). The WGMMA test kernel, which serves no operator, and an
empty kernel, which shows how fast this machine compiles, go through NVRTC itself with the library's
options. Processors are shared, so a kernel's time is the minimum over all rounds; an
implementation's is the median of its kernels'. Used by: gpu.py.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

import dlblas

from . import source
from .life import end_with_parent

Row = dict[str, Any]

_ROWS, _FEW_ROWS, _WIDTH = 64, 8, 4096
_WIDTHS, _DTYPES = (_WIDTH, 1024, 8192, 65536, 256, 1 << 22), ("bfloat16", "float16")
_KERNELS = 2  # of an implementation
_ROUNDS = 4  # processes, each compiling every kernel once
_TRIES = 5  # of what goes through NVRTC itself
_WGMMA_HEADER = "tests/device/wgmma_gemm.cuh"
_WGMMA = "dlblas::wgmma_gemm<dlblas::WgmmaTraits{256, true, false, false, 4}>"
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def _told(op: str | None, name: str, ours: Row) -> Row:
    return {
        "what": "gpu_compile",
        "op": op,
        "problem": {"kernel": name},
        "dtype": "bf16",
        "method": {
            "clock": "steady",
            "statistic": "of each kernel the least of all rounds, of kernels the median",
        },
        "ours": {"name": name, **ours},
        "peers": [],
        "against": None,
        "ratio": None,
    }


def _times(best: list[float], rounds: int) -> Row:
    """Statistics over the kernels of one implementation, in milliseconds."""
    middle = statistics.median(best)
    return {
        "min_ms": min(best),
        "median_ms": middle,
        "max_ms": max(best),
        "mad_ms": statistics.median(abs(ms - middle) for ms in best),
        "kernels": len(best),
        "rounds": rounds,
    }


def _arrays(op: str, dtype: str, width: int, rows: int) -> tuple[dlblas.Spec, ...]:
    def made(*shape: int) -> dlblas.Spec:
        return dlblas.Spec(shape, dtype, device="cuda")

    if op == "matmul":
        return made(rows, width), made(width, _WIDTH)
    x, weight = made(rows, width), made(width)
    return (x, weight, made(rows, width)) if op == "add_rms_norm" else (x, weight)


def _first_uses(op: str, name: str) -> tuple[dict[str, float], str]:
    """Milliseconds of up to ``_KERNELS`` kernels, over widths and 16-bit dtypes that compile anew;
    and why none did."""
    times: dict[str, float] = {}
    why = "every kernel was already there"
    # Some implementations take only few rows.
    for rows, width, dtype in itertools.product((_ROWS, _FEW_ROWS), _WIDTHS, _DTYPES):
        if len(times) == _KERNELS or (op == "matmul" and width > 8192):
            continue
        arrays = _arrays(op, dtype, width, rows)
        compiled = dlblas.counters()["compiled"]
        begin = time.perf_counter()
        try:
            with dlblas.pinned(op, name):
                dlblas.warmup(op, *arrays)
        except dlblas.Error as error:
            why = " ".join(str(error).split())[:160]
            continue
        elapsed = (time.perf_counter() - begin) * 1e3
        if kernels := dlblas.counters()["compiled"] - compiled:
            times[f"{rows}x{width} {dtype}"] = elapsed / kernels
    return times, why


def _round(wanted: list[tuple[str, str]]) -> list[tuple[dict[str, float], str]]:
    """The times of all wanted implementations, from a fresh process with an empty store."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            env={**os.environ, "DLBLAS_CACHE": folder},
            input=json.dumps(wanted),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return [(times, why) for times, why in json.loads(done.stdout)]


def implementations(wanted: Iterable[tuple[str, str]]) -> Iterator[Row]:
    """One row for each (operator, implementation)."""
    wanted = list(wanted)
    rounds = [_round(wanted) for _ in range(_ROUNDS)]
    for (op, name), *tries in zip(wanted, *rounds, strict=True):
        least = {kernel: min(times[kernel] for times, _ in tries) for kernel in tries[0][0]}
        missing = {"missing": tries[0][1]}
        yield _told(op, name, _times(list(least.values()), _ROUNDS) if least else missing)


def _closure(root: str, name: str, found: dict[str, str]) -> dict[str, str]:
    if name not in found:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            found[name] = file.read()
        for included in _INCLUDE.findall(found[name]):
            _closure(root, included, found)
    return found


def other_kernels() -> Iterator[Row]:
    """Rows of the smallest complete Hopper GEMM in tests/device and of an empty kernel."""
    root = source.tree_root()
    library = next((r for r in dlblas.info()["libraries"] if r["name"] == "nvrtc"), None)
    headers = {} if root is None else _closure(root, _WGMMA_HEADER, {})
    for name, main, entry in (
        ("wgmma test kernel", f'#include "{_WGMMA_HEADER}"\n', _WGMMA),
        ("empty kernel", "__global__ void empty() {}\n", "empty"),
    ):
        if root is None or library is None or not library["found"]:
            why = "not run from a source tree" if root is None else "no NVRTC"
            yield _told(None, name, {"missing": why})
            continue
        nvrtc = ctypes.CDLL(library["path"])
        try:
            least = min(_compile(nvrtc, headers, main, entry) for _ in range(_TRIES))
        except RuntimeError as error:
            yield _told(None, name, {"missing": str(error)[:200]})
            continue
        yield _told(None, name, _times([least], _TRIES))


def _version(nvrtc: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def _compile(nvrtc: ctypes.CDLL, headers: dict[str, str], main: str, entry: str) -> float:
    program = ctypes.c_void_p()
    texts = (ctypes.c_char_p * len(headers))(*(t.encode() for t in headers.values()))
    names = (ctypes.c_char_p * len(headers))(*(n.encode() for n in headers))
    options = [b"-std=c++20", b"-default-device", b"-arch=sm_90a", b"--ptxas-options=-v"]
    options += [b"--minimal", b"--no-cache"] if _version(nvrtc) >= (12, 9) else []
    text, count = main.encode(), len(headers)
    begin = time.perf_counter()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"dlblas.cu", count, texts, names)
    nvrtc.nvrtcAddNameExpression(program, entry.encode())
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


def main() -> int:
    """One round: reads (operator, implementation) pairs from stdin, writes times to stdout."""
    # The first compilation of a process also loads NVRTC; no kernel's time should include that.
    dlblas.warmup("rms_norm", *_arrays("rms_norm", "float32", 1000, _ROWS))
    end_with_parent()
    json.dump([_first_uses(op, name) for op, name in json.load(sys.stdin)], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
