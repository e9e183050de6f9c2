#!/usr/bin/env python3
"""Runs every CUDA implementation a few times on small shapes, through the C ABI and without torch:
the workload for compute-sanitizer.

In: the cases of the families' cases.json. Device buffers have exactly the tensors' sizes, except
inputs whose size is not a multiple of 16 bytes (``input_bytes``), and results are not initialised,
so memcheck reports a byte too far and initcheck a byte not written; results are compared with the
oracle. A workspace has exactly the requested size and is filled with NaN, so a result that depends
on unwritten bytes is wrong. With --unwritten it stays uninitialised, for initcheck to track.
Out: one line per run; exit code 1 if one is wrong or an implementation ran nowhere.
Read next: tools/gpu_check, python/dlblas/harness/call.py.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import pathlib
import sys
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_ELEMENTS = 1 << 20  # letters' product
MAX_HELD = 1 << 18  # elements of all inputs, where many letters make a large product
# Dense layouts: the uploaded bytes have the strides that the call receives.
COMPACT = ("nn", "nt", "tn", "tt")
LIBRARIES = ("cublas", "cudnn")  # other people's kernels
# Kernels that store through tensor maps or bulk copies, which CUDA 13.0's initcheck does not track:
# their results and workspaces are always filled.
STORE_BY_MAPS = ("cuda_wgmma",)
NAN_BYTES = 0xFF  # a NaN in every float dtype, −1 as an integer


class Driver:
    """The few functions of the CUDA driver that tensors need."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        device, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self._call("cuCtxSetCurrent", self._context)

    def _call(self, name: str, *args: Any) -> None:
        code = getattr(self._cuda, name)(*args)
        if code != 0:
            raise SystemExit(f"gpu_smoke: {name} returned {code}")

    def allocate(self, num_bytes: int) -> ctypes.c_void_p:
        memory = ctypes.c_void_p()
        self._call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(max(1, num_bytes)))
        return memory

    def fill(self, memory: ctypes.c_void_p, num_bytes: int, byte: int = 0) -> None:
        self._call("cuMemsetD8_v2", memory, ctypes.c_ubyte(byte), ctypes.c_size_t(num_bytes))

    def free(self, memory: ctypes.c_void_p) -> None:
        self._call("cuMemFree_v2", memory)

    def upload(self, array: Any, exact: bool) -> ctypes.c_void_p:
        memory = self.allocate(array.nbytes if exact else input_bytes(array.nbytes))
        host = ctypes.c_void_p(array.ctypes.data)
        self._call("cuMemcpyHtoD_v2", memory, host, ctypes.c_size_t(array.nbytes))
        return memory

    def download(self, array: Any, memory: ctypes.c_void_p) -> None:
        host = ctypes.c_void_p(array.ctypes.data)
        self._call("cuMemcpyDtoH_v2", host, memory, ctypes.c_size_t(array.nbytes))

    def synchronize(self) -> None:
        self._call("cuCtxSynchronize")


def input_bytes(num_bytes: int) -> int:
    """The size of an input's buffer. ptxas 13 compiles a cp.async of n < 16 bytes to one
    LDGSTS.128.ZFILL at the address plus 16 − n: the hardware reads n bytes, compute-sanitizer
    counts 16 from there. (--exact shows its report.)"""
    return num_bytes if num_bytes % 16 == 0 else num_bytes // 16 * 16 + 32


def in_order(array: Any) -> Any:
    """The array's elements in memory order: a C-contiguous view or copy."""
    import numpy as np

    axes = sorted(range(array.ndim), key=lambda i: -abs(array.strides[i]))
    return np.ascontiguousarray(array.transpose(axes))


class Run(NamedTuple):
    op: str
    implementation: str
    case: Any


class How(NamedTuple):
    """The options of main that apply to every run."""

    exact: bool = False  # inputs
    unwritten: bool = False  # workspaces


class Workspaces:
    """The ``alloc`` callback of a call's context."""

    def __init__(self, driver: Driver, filled: bool) -> None:
        self.held = list[ctypes.c_void_p]()

        def alloc(_: Any, num_bytes: int, align: int) -> int | None:
            memory = driver.allocate(num_bytes)
            self.held.append(memory)
            if filled:
                driver.fill(memory, num_bytes, NAN_BYTES)
            return memory.value

        kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
        self.function = kind(alloc)  # lives as long as the call


def on_device(abi: Any, array: Any, memory: ctypes.c_void_p) -> Any:
    tensor = abi._tensor(array)
    tensor.data, tensor.device = memory.value, abi._Device(2, 0)
    return tensor


def call_on_device(driver: Driver, call: Any, judged: bool, filled: bool, how: How) -> None:
    """Runs the harness' call: uploads its arrays before, and downloads its results after.
    ``judged``: the reference, which knows the undefined elements, judges it. ``filled``: results
    are initialised."""
    import numpy as np
    from dlblas import _native
    from dlblas.harness import abi

    library, keep = _native._lib, list[Any]()
    held = {name: driver.upload(in_order(t.array), how.exact) for name, t in call.inputs.items()}
    workspaces = Workspaces(driver, filled or not how.unwritten)
    outputs = [driver.allocate(t.array.nbytes) for t in call.results]
    masks = call.undefined() if judged else [None] * len(outputs)
    for tensor, memory, mask in zip(call.results, outputs, masks, strict=False):
        if filled or (mask is not None and mask.any()):  # unwritten, and read below
            driver.fill(memory, tensor.array.nbytes)
    try:
        values = []
        for name, given in call.named().items():
            if name in held:
                keep.append(on_device(abi, given, held[name]))
                values.append(abi._Value(1, 0, abi._Union(tensor=ctypes.pointer(keep[-1]))))
            else:
                values.append(abi._value(given, keep))
        results = [on_device(abi, t.array, m) for t, m in zip(call.results, outputs, strict=True)]
        args = abi._Args(
            size=ctypes.sizeof(abi._Args),
            values=(abi._Value * len(values))(*values),
            num_values=len(values),
            num_named=len(values),
            names=(ctypes.c_char_p * len(values))(*(n.encode() for n in call.named())),
            outputs=(abi._Tensor * len(results))(*results),
            num_outputs=len(results),
        )
        alloc = ctypes.cast(workspaces.function, ctypes.c_void_p)
        context = abi._Context(size=ctypes.sizeof(abi._Context), alloc=alloc)
        handle = ctypes.c_void_p()
        _native.check(library.dlblas_op(call.case.op.encode(), ctypes.byref(handle)))
        _native.check(library.dlblas_call(handle, ctypes.byref(args), ctypes.byref(context)))
        driver.synchronize()
        written = [(call.inputs[n], held[n]) for n in call.written if n in held]
        for tensor, memory in [*zip(call.results, outputs, strict=True), *written]:
            whole = np.empty_like(tensor.array, order="C")
            driver.download(whole, memory)
            tensor.array[...] = whole
    finally:
        for memory in (*held.values(), *outputs, *workspaces.held):
            driver.free(memory)


def elements(case: Any) -> int:
    sizes = (math.prod(v) if isinstance(v, list) else v for v in case.dims.values())
    return math.prod(sizes)


def held(registry: Any, case: Any) -> int:
    """Elements of all inputs."""
    from dlblas._specs import shape_of

    specs = registry.operators[case.op]["tensors"]
    present = [t for t in specs if not t["optional"] or case.args.get(t["name"], t["usual"])]
    return sum(math.prod(shape_of(t["dims"], case.dims, False)) for t in present)


_BY_OP: dict[str, list[Any]] = {}


def ordinary(registry: Any, op: str) -> list[Any]:
    """An operator's cases with normal values and compact layouts."""
    from dlblas.harness import expand

    if not _BY_OP:  # once: it goes through all of every operator
        for case in expand(registry):
            if case.layout in ("contiguous", *COMPACT) and case.values == "normal":
                _BY_OP.setdefault(case.op, []).append(case)
    return _BY_OP.get(op, [])


def candidates(registry: Any, op: str, most: int = MAX_ELEMENTS) -> list[Any]:
    """Contiguous cases, the largest first; cases of equal size are ordered by dtype."""
    cases = [case for case in ordinary(registry, op) if case.layout in ("contiguous", "nn")]
    fitting = [case for case in cases if 0 < elements(case) <= most]
    return sorted(fitting, key=lambda case: (-elements(case), case.dtype))


def further(registry: Any, op: str, most: int = MAX_ELEMENTS) -> list[Any]:
    """For implementations that accept no candidate: cases in other compact layouts, and cases with
    many letters but small tensors, the smallest first."""
    known = {case.identity for case in candidates(registry, op, most)}
    fitting = [
        case
        for case in ordinary(registry, op)
        if case.identity not in known and elements(case) > 0 and held(registry, case) <= MAX_HELD
    ]
    return sorted(fitting, key=lambda case: (held(registry, case), case.dtype))


def spread(cases: list[Any], count: int) -> list[Any]:
    """The cases reordered: first ``count`` of them, evenly spaced from the largest to the smallest
    (the middle one if ``count`` is 1), then the others."""
    if len(cases) <= count:
        return cases
    if count == 1:
        middle = len(cases) // 2
        return cases[middle:] + cases[:middle]
    step = (len(cases) - 1) / max(1, count - 1)
    first = [cases[round(i * step)] for i in range(count)]
    return first + [case for case in cases if case not in first]


def run_one(driver: Driver, registry: Any, run: Run, seed: int, how: How) -> str:
    """ "" if it ran and is right, else why not. Raises the library's refusals."""
    from dlblas import pinned
    from dlblas.harness.call import Call, FailedCheck, SkippedCase
    from dlblas.harness.checks import check_oracle

    try:
        call = Call(registry, run.case, seed)
        with pinned(run.op, run.implementation):
            judged = not registry.operators[run.op]["judge"]
            call_on_device(driver, call, judged, run.implementation in STORE_BY_MAPS, how)
        check_oracle(call)
    except SkippedCase as skipped:
        return f"skipped: {skipped}"
    except FailedCheck as failed:
        return f"WRONG: {failed}"
    return ""


def run_implementation(
    driver: Driver, registry: Any, op: str, name: str, count: int, how: How
) -> bool:
    from dlblas.errors import UnsupportedDtypeError, UnsupportedError

    ran, why, good = 0, "no case is small enough", True
    for case in [*spread(candidates(registry, op), count), *further(registry, op)]:
        if ran == count:
            break
        try:
            wrong = run_one(driver, registry, Run(op, name, case), 5, how)
        except (UnsupportedError, UnsupportedDtypeError) as error:
            why = " ".join(str(error).split())[:200]
            continue
        if wrong.startswith("skipped"):
            why = wrong
            continue
        ran += 1
        good &= not wrong
        dims = " ".join(f"{k}={v}" for k, v in case.dims.items())
        print(f"{op} {name} {case.dtype} {dims}: {wrong or 'right'}", flush=True)
    if ran == 0:
        print(f"{op} {name}: RAN NOWHERE: {why}", flush=True)
    return good and ran > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--package", type=pathlib.Path, default=ROOT / "build" / "python")
    parser.add_argument("--cases", type=int, default=3, help="an implementation (default 3)")
    parser.add_argument("--op", help="this operator alone")
    parser.add_argument("--exact", action="store_true", help="inputs have exactly their bytes, too")
    parser.add_argument("--unwritten", action="store_true", help="workspaces are not filled")
    args = parser.parse_args()
    how = How(args.exact, args.unwritten)
    sys.path.insert(0, str(args.package))
    from dlblas.harness import load_registry

    driver, registry, good, runs = Driver(), load_registry(), True, 0
    for op, facts in registry.operators.items():
        for impl in facts["implementations"]:
            if impl["backend"] != "cuda" or impl["name"].startswith(LIBRARIES):
                continue
            if args.op in (None, op):
                good &= run_implementation(driver, registry, op, impl["name"], args.cases, how)
                runs += 1
    print(f"gpu_smoke: {runs} implementations, {'all right' if good else 'NOT all right'}")
    return 0 if good and runs > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
