#!/usr/bin/env python3
"""Prints the functions of libdlblas.so that one real call enters, with the file of each.

A child process makes the call. This program, its parent, sets a breakpoint on every function of the
library and removes each at its first hit, so the list has every function once, in the order of
first entry. The library is the shipped one, not a special build. Functions that the compiler
inlined have no entry, and functions defined in headers (inline, templates) have no file. x86-64
Linux only. tests/test_flow.py compares docs/flow.md with this trace.

    python tools/trace_call.py numpy     # or: torch, c; --cold for the first call of a process
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
from typing import NamedTuple

import tree

_TRACEME, _CONT, _GETREGS, _SETREGS, _SETOPTIONS, _EXITKILL = 0, 7, 12, 13, 0x4200, 1 << 20
_BREAKPOINT = b"\xcc"
_BEFORE_RIP = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax"
_AFTER_RIP = "cs eflags rsp ss fs_base gs_base ds es fs gs"  # of struct user_regs_struct

# Each entry's `call()` is traced once. One thread, one instruction set: the same path everywhere.
_SETTINGS = {"DLBLAS_THREADS": "1", "DLBLAS_CPU_ISA": "baseline", "OMP_NUM_THREADS": "1"}
_CALLS = {
    "numpy": """
import dlblas, numpy
x, w = numpy.ones((4, 64), "f4"), numpy.ones(64, "f4")
def call(): return dlblas.rms_norm(x, w)
""",
    "torch": """
import dlblas, torch
torch.set_num_threads(1)
x, w = torch.ones(4, 64), torch.ones(64)
def call(): return torch.ops.dlblas.rms_norm(x, w)
""",
    "c": """
import dlblas, numpy
from dlblas.harness.abi import prepare
arrays = {"x": numpy.ones((4, 64), "f4"), "weight": numpy.ones(64, "f4")}
call = prepare("rms_norm", arrays, [numpy.empty((4, 64), "f4")], 1)
""",
}
_PROGRAM = """
import ctypes, os, signal, sys
sys.path.insert(0, {package!r})
{call}
if not {cold}:
    for _ in range(3): call()
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace({traceme}, 0, None, None) != 0:
    sys.exit("this process may not be traced: " + os.strerror(ctypes.get_errno()))
os.kill(os.getpid(), signal.SIGSTOP)
call()
os.kill(os.getpid(), signal.SIGSTOP)
"""


class Entry(NamedTuple):
    """A function that the call entered."""

    function: str  # "Call::read": without namespace dlblas, anonymous ones, templates, parameters
    file: str  # of the tree; empty for what headers define


class CannotTraceError(RuntimeError):
    """This machine cannot trace a process; the message says why."""


class _Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in f"{_BEFORE_RIP} rip {_AFTER_RIP}".split()]


def _run(*command: str, text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def short(demangled: str) -> str:
    """``void dlblas::x::(anonymous namespace)::f<(int)2>(int) const`` as ``x::f``."""
    text = demangled.replace("(anonymous namespace)::", "").replace("operator()", "call")
    text = re.sub(r"\[abi:\w+\]", "", text)
    depth, kept = 0, ""
    for mark in text:  # without template arguments
        depth += mark == "<"
        kept += mark if depth == 0 else ""
        depth -= mark == ">"
    name = kept.partition("(")[0].strip().split(" ")[-1]
    return name.removeprefix("dlblas::")


def _definitions(build: pathlib.Path) -> list[tuple[str, str]]:
    """(mangled name, file of the tree) of the functions in the library's objects, except inline."""
    folder = build / "CMakeFiles" / "dlblas_objects.dir"
    objects = [str(path) for path in sorted(folder.rglob("*.o"))]
    found = []
    for line in _run("nm", "-A", "--defined-only", "--format=posix", *objects).splitlines():
        place, _, rest = line.partition(": ")
        name, kind = rest.split(" ")[:2]
        if kind in ("T", "t"):
            file = str(pathlib.Path(place).relative_to(folder)).removesuffix(".o")
            if file.startswith("generated/") or (build.parent / file).is_file():  # not left over
                found.append((name, file))
    return found


def defined(build: pathlib.Path) -> set[Entry]:
    """Every function of the library that has a file."""
    rows = _definitions(build)
    names = _run("c++filt", text="\n".join(name for name, _ in rows)).splitlines()
    return {Entry(short(name), file) for name, (_, file) in zip(names, rows, strict=True)}


class _Symbols:
    """The library's functions by their offset in the file's mapping."""

    def __init__(self, library: pathlib.Path) -> None:
        self.named: dict[int, tuple[str, str]] = {}  # offset -> mangled name, its unit if local
        unit = ""
        for line in _run("readelf", "-sW", str(library)).splitlines():
            fields = line.split()
            if len(fields) < 8:
                continue
            value, kind, where, name = fields[1], fields[3], fields[6], fields[7]
            if kind == "FILE":
                unit = name
            elif kind == "FUNC" and where.isdigit() and int(value, 16):
                self.named.setdefault(int(value, 16), (name, unit))

    def entries(self, offsets: list[int], definitions: list[tuple[str, str]]) -> list[Entry]:
        """Our functions at these offsets, without the statically linked C++ standard library."""
        files: dict[str, list[str]] = {}  # several files may have a local function of one name
        for mangled, file in definitions:
            files.setdefault(mangled, []).append(file)
        rows = [self.named[offset] for offset in offsets]
        names = _run("c++filt", text="\n".join(name for name, _ in rows)).splitlines()
        found = []
        for (mangled, unit), name in zip(rows, names, strict=True):
            if "dlblas" not in name or short(name).startswith("std::"):
                continue
            places = files.get(mangled, [])
            if len(places) > 1:
                places = [file for file in places if pathlib.PurePath(file).name == unit]
            found.append(Entry(short(name), places[0] if len(places) == 1 else ""))
        return found


class _Child:
    """The traced process, stopped before its call."""

    def __init__(self, program: str, library: pathlib.Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [ctypes.c_long] * 2 + [ctypes.c_void_p] * 2
        self._libc.ptrace.restype = ctypes.c_long
        if self._wait() != signal.SIGSTOP:
            raise CannotTraceError("the traced process ended before its call")
        self._ptrace(_SETOPTIONS, _EXITKILL)
        maps = pathlib.Path(f"/proc/{self.pid}/maps").read_text().splitlines()
        rows = [line.split() for line in maps if line.endswith(str(library))]
        self.base = min(int(row[0].partition("-")[0], 16) - int(row[2], 16) for row in rows)

    def _ptrace(self, request: int, data: object = None) -> None:
        if self._libc.ptrace(request, self.pid, None, data) != 0:
            raise CannotTraceError(f"ptrace: {os.strerror(ctypes.get_errno())}")

    def _wait(self) -> int:
        """The signal that stopped the child; raises if the child ended instead."""
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSTOPPED(status):
            return os.WSTOPSIG(status)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        said = self.process.stderr.read() if self.process.stderr else ""
        kind = CannotTraceError if "may not be traced" in said else RuntimeError
        raise kind(f"the traced process ended with {self.process.returncode}: {said.strip()}")

    def first_entries(self, offsets: list[int]) -> list[int]:
        """Runs the call; the offsets that it reached, in the order of first entry."""
        seen: list[int] = []
        registers = _Registers()
        with open(f"/proc/{self.pid}/mem", "r+b", buffering=0) as memory:

            def write(offset: int, byte: bytes) -> None:
                memory.seek(self.base + offset)
                memory.write(byte)

            before: dict[int, bytes] = {}
            for offset in offsets:
                memory.seek(self.base + offset)
                before[offset] = memory.read(1)
                write(offset, _BREAKPOINT)
            while True:
                self._ptrace(_CONT)
                stopped = self._wait()
                if stopped == signal.SIGSTOP:
                    return seen
                if stopped != signal.SIGTRAP:
                    raise RuntimeError(f"the traced call ended in {signal.Signals(stopped).name}")
                self._ptrace(_GETREGS, ctypes.addressof(registers))
                registers.rip -= 1  # the breakpoint's own byte
                seen.append(registers.rip - self.base)
                write(seen[-1], before[seen[-1]])
                self._ptrace(_SETREGS, ctypes.addressof(registers))

    def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        self.process.wait()


def trace(build: pathlib.Path, entry: str, cold: bool = False) -> list[Entry]:
    """The functions that one call of this entry enters. ``cold``: the process's first call, in an
    empty store. Raises CannotTraceError."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        raise CannotTraceError(
            f"breakpoints are written for x86-64 Linux, not {platform.machine()}"
        )
    library = (build / "libdlblas.so").resolve()
    symbols = _Symbols(library)
    program = _PROGRAM.format(
        package=str(build / "python"), call=_CALLS[entry], cold=cold, traceme=_TRACEME
    )
    with tempfile.TemporaryDirectory() as store:
        child = _Child(program, library, {**os.environ, **_SETTINGS, "DLBLAS_CACHE": store})
        try:
            offsets = child.first_entries(sorted(symbols.named))
        finally:
            child.end()
    return symbols.entries(offsets, _definitions(build))


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("entry", choices=sorted(_CALLS))
    parser.add_argument("--cold", action="store_true", help="the first call, not a later one")
    args = parser.parse_args()
    for function, file in trace(args.root.resolve() / "build", args.entry, args.cold):
        print(f"{file or '(header)':44} {function}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
