"""What a result belongs to: the commit, and a hash of the sources that produced it.

A row goes stale when its hash changes: a kernel's row with its family's kernels, the host's rows
with the call path. Used by: the benchmarks and tools/figures.py.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import Any

from .. import _made_of

Row = dict[str, Any]

_HOST = ("src/core", "src/registry", "src/dispatch", "bindings/c")
_IMPORTED = (
    "__init__",
    "_after_import",
    "_array",
    "_dtypes",
    "_functions",
    "_hooks",
    "_native",
    "_torch_bridge",
    "cache",
    "errors",
    "oracle",
    "tuning",
)
_PYTHON = ("bindings/python", *(f"python/dlblas/{name}.py" for name in _IMPORTED))
# Folders and files behind the rows that do not come from a family's kernels.
SOURCES = {
    "host": _HOST,
    "python": (*_HOST, *_PYTHON),
    "import": _PYTHON,
    "wheel": ("src", "cpu", "ops", "bindings", "python/dlblas"),
    "machine": ("cpu/peak_simd.hpp", "src/tuner/machine.cpp"),
    "gpu_host": (*_HOST, *_PYTHON, "src/cuda", "bindings/torch", "python/dlblas/torch"),
    "wgmma test kernel": ("device", "tests/device"),
}


def tree_root() -> str | None:
    """The root of the source tree that contains the current folder, or None."""
    try:
        folder = os.getcwd()
    except OSError:  # it is gone
        return None
    while True:
        if all(os.path.exists(os.path.join(folder, name)) for name in ("VERSION", "benchmarks")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _digest(parts: list[bytes]) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def tree_hash(root: str | None, what: str) -> str:
    """The hash of the sources behind ``what``; "" outside a tree: such a row is never stale."""
    if root is None:
        return ""
    parts: list[bytes] = []
    for name in SOURCES[what]:
        path = os.path.join(root, name)
        files = [path] if os.path.isfile(path) else []
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            files += [os.path.join(folder, n) for n in sorted(names)]
        for file in files:
            with open(file, "rb") as opened:
                parts += [os.path.relpath(file, root).encode(), opened.read()]
    return _digest(parts)


def family_hash(info: Row, op: str, backend: str = "cpu") -> str:
    """The hash of every implementation of that backend in the operator's family, or in the
    families of the operators that a function calls, as the library was built. It leaves out the
    version of a rival's library, which the row itself records."""
    function = _made_of.function_named(op)
    names = _made_of.operators_of(function) if function else [op]
    families = {row["family"] for row in info["operators"] if row["name"] in names}
    parts = [
        f"{row['name']} {impl['name']} {impl['source_hash'].partition('-')[0]}".encode()
        for row in info["operators"]
        if row["family"] in families
        for impl in row["implementations"]
        if impl["backend"] == backend
    ]
    return _digest(sorted(parts))


def made_of(row: Row, info: Row, root: str | None) -> str:
    """The current hash of the sources behind a row."""
    what = row["what"]
    if what == "gpu_compile" and row["op"] is None:
        what = "wgmma test kernel"
    if what in SOURCES:
        return tree_hash(root, what)
    if "chain" in row:
        return _digest([family_hash(info, op, "cuda").encode() for op in row["chain"]])
    on_gpu = what.startswith("gpu_") or what == "compile"
    return family_hash(info, row["op"], "cuda" if on_gpu else "cpu")


def commit(root: str | None) -> tuple[str | None, bool | None]:
    """The commit, and whether tracked files differ from it; None without git."""
    if root is None:
        return None, None

    def git(*words: str) -> str:
        command = ["git", "-C", root, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return None, None
