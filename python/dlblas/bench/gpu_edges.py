"""The edges of a captured CUDA graph: a kernel launched with programmatic dependent launch has one
that lets it begin before the kernel ahead of it ends. ``make_full`` replaces it by a full
dependency, so that a chain of kernels can be timed both ways.

Used by: gpu_timing.py. Needs libcuda of CUDA 12.3 and later.
"""

from __future__ import annotations

import ctypes

_PROGRAMMATIC = 1  # CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC


class _EdgeData(ctypes.Structure):
    _fields_ = (
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("type", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 5),
    )


def _check(code: int, what: str) -> None:
    if code != 0:
        raise OSError(f"{what} failed with CUDA error {code}")


def make_full(graph: int) -> int:
    """Makes the graph's programmatic edges full; returns how many there were. ``graph``: a CUgraph
    that has not been instantiated."""
    cuda = ctypes.CDLL("libcuda.so.1")
    handle, count = ctypes.c_void_p(graph), ctypes.c_size_t()
    _check(cuda.cuGraphGetEdges_v2(handle, None, None, None, ctypes.byref(count)), "counting edges")
    sources, targets = ((ctypes.c_void_p * count.value)() for _ in range(2))
    data = (_EdgeData * count.value)()
    _check(
        cuda.cuGraphGetEdges_v2(handle, sources, targets, data, ctypes.byref(count)),
        "reading edges",
    )
    chosen = [i for i in range(count.value) if data[i].type == _PROGRAMMATIC]
    size = ctypes.c_size_t(len(chosen))
    ends = [(ctypes.c_void_p * len(chosen))(*(e[i] for i in chosen)) for e in (sources, targets)]
    before = (_EdgeData * len(chosen))(*(data[i] for i in chosen))
    after = (_EdgeData * len(chosen))()
    _check(cuda.cuGraphRemoveDependencies_v2(handle, *ends, before, size), "removing edges")
    _check(cuda.cuGraphAddDependencies_v2(handle, *ends, after, size), "adding edges")
    return len(chosen)
