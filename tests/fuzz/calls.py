"""Drives fuzzers of calls: call i of seed s is always the same call, and a crash names it.

tests/fuzz/calls_arrays.py [--seed S] [--first I] [--calls N] [--seconds T]: the calls run in a
child, which records the number of the current call where the parent can read it after the child
ends. Exit 1 on a finding, with the command that repeats it. Used by: calls_arrays.py,
calls_c_abi.py, tools/fuzz.py.
"""

from __future__ import annotations

import argparse
import faulthandler
import mmap
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "build" / "python"
_WAIT_S = 120  # for one call; none takes a second
_COUNTS = struct.Struct("<qqq")  # the call it is at, answered, refused

# A call returns True if it was answered, False if it was refused as it should be.
Call = Callable[[random.Random], bool]


def _serve(call: Call, options: argparse.Namespace) -> int:
    faulthandler.enable()
    sys.setrecursionlimit(500)
    with open(options.at, "r+b") as file:
        at = mmap.mmap(file.fileno(), _COUNTS.size)
    counts = [0, 0]
    end = time.monotonic() + options.seconds if options.seconds else None
    i = options.first
    while (i - options.first < options.calls) if end is None else (time.monotonic() < end):
        at[:] = _COUNTS.pack(i, *counts)
        try:
            counts[not call(random.Random(options.seed * 2**40 + i))] += 1
        except BaseException:
            traceback.print_exc()
            return 1
        i += 1
    at[:] = _COUNTS.pack(i, *counts)
    return 0


def _watch(child: subprocess.Popen[str], at: pathlib.Path) -> str:
    """Returns the child's standard error once it has ended; a child that hangs is made to dump its
    stack and die."""
    last, since = b"", time.monotonic()
    while True:
        try:
            return child.communicate(timeout=5)[1]
        except subprocess.TimeoutExpired:
            now = at.read_bytes()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > _WAIT_S:
                child.send_signal(signal.SIGABRT)


def main(name: str, call: Callable[[], Call]) -> int:
    """``call()`` creates the target, in the child only."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1 << 30))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=0, help="instead of a number of calls")
    parser.add_argument("--at", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.at:
        return _serve(call(), options)
    with tempfile.TemporaryDirectory(prefix="dlblas-fuzz-") as folder:
        at = pathlib.Path(folder) / "at"
        at.write_bytes(bytes(_COUNTS.size))
        os.mkdir(pathlib.Path(folder) / "cwd")
        package = os.environ.get("DLBLAS_TEST_PYTHON", str(PACKAGE))
        path = [package, str(pathlib.Path(__file__).parent)]
        begin = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", os.path.abspath(sys.argv[0]), *sys.argv[1:],
             f"--seed={options.seed}", f"--at={at}"],
            env={
                **os.environ, "PYTHONPATH": os.pathsep.join(path), "DLBLAS_LOG": "off",
                "DLBLAS_CACHE": f"{folder}/store",
            },
            cwd=pathlib.Path(folder) / "cwd", stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        said = _watch(child, at)
        i, answered, refused = _COUNTS.unpack(at.read_bytes())
    took = time.monotonic() - begin
    if child.returncode == 0:
        print(
            f"{name}: ok; Done {i - options.first} calls in {took:.0f} second(s) by seed "
            f"{options.seed}, {answered} answered and {refused} refused"
        )
        return 0
    print(
        f"{name}: FAILED at call {i} by seed {options.seed}, exit {child.returncode}\n"
        + said[-6000:]
    )
    print(f"again: {sys.argv[0]} --seed {options.seed} --first {i} --calls 1")
    return 1
