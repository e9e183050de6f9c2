"""What this machine has of everything that the library can use, with a remedy for what it lacks.

In: ``dlblas.info()`` and one operator's row of it. Out: findings, for ``dlblas info --why OP``,
which prints them above the explained cases. Nothing is imported, compiled or run to find out. Read
next: _cli_show.py.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any, NamedTuple

Row = dict[str, Any]
_OLDEST_TORCH = (2, 10)


class Finding(NamedTuple):
    """One thing an operator may need: used or not, why, and what to do (empty: nothing)."""

    name: str
    used: bool
    text: str
    remedy: str = ""


def _count(row: Row, backend: str) -> str:
    names = [impl["name"] for impl in row["implementations"] if impl["backend"] == backend]
    return f"{len(names)} implementation{'' if len(names) == 1 else 's'} of {row['name']}"


def _cpu(info: Row, row: Row) -> Finding:
    cpu = next(d for d in info["devices"] if d["device"] == "cpu")
    threads = f"{cpu['threads']} thread{'' if cpu['threads'] == 1 else 's'}"
    return Finding("cpu", True, f"{cpu['isa']}, {threads}: {_count(row, 'cpu')}")


def _gpu(info: Row, row: Row) -> Finding:
    waiting = f"{_count(row, 'cuda')} can run on none"
    driver, why_not = info["cuda"]["driver"], info["cuda"]["why_not"]
    if why_not:
        remedy = "install NVIDIA's driver; start a container with the GPU (docker run --gpus all)"
        return Finding("gpu", False, f"{why_not}; {waiting}", remedy)
    gpus = [d for d in info["devices"] if d["device"] != "cpu"]
    if not gpus:
        return Finding(
            "gpu", False, f"driver {driver} shows no GPU; {waiting}", "look at CUDA_VISIBLE_DEVICES"
        )
    models = ", ".join(f"{d['device']} {d['model']} (sm_{d['arch']})" for d in gpus)
    return Finding("gpu", True, f"driver {driver}, {models}: {_count(row, 'cuda')}")


def _nvrtc(info: Row) -> Finding:
    version, why_not = info["cuda"]["nvrtc"], info["cuda"]["nvrtc_why_not"]
    if why_not:
        reason, _, remedy = why_not.partition("; run ")
        text = f"{reason}; kernels that no cache holds cannot be compiled"
        return Finding("nvrtc", False, text, remedy.replace("`", ""))
    if not version:
        return Finding(
            "nvrtc", False, "DLBLAS_JIT=0: only kernels that `warmup` has left in the cache run"
        )
    return Finding("nvrtc", True, version)


def torch_here() -> str:
    """The finding about torch in one line; dlblas finds torch when a program imports it."""
    found = _torch()
    if found.used:
        return f"{found.text}, found when a program imports it"
    return f"{found.text}: {found.remedy}"


def _torch() -> Finding:
    """What is installed: the command never imports torch."""
    if importlib.util.find_spec("torch") is None:
        text = "not installed; NumPy arrays and whatever has DLPack are taken without it"
        return Finding("torch", False, text, "pip install torch (2.10 or later), for its tensors")
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:  # a build tree
        return Finding("torch", True, "installed, in no known version")
    numbers = [int(n) for n in version.split("+")[0].split(".")[:2] if n.isdecimal()]
    if tuple(numbers) < _OLDEST_TORCH:
        text = f"{version} is too old; expected 2.10 or later"
        return Finding("torch", False, text, "pip install --upgrade torch")
    return Finding("torch", True, version)


def _cache(info: Row) -> Finding:
    reason = info["cache"]["memory_only_because"]
    if not reason:
        return Finding("cache", True, info["cache"]["path"])
    text = f"in memory only, lost when the process ends: {reason.removeprefix('cache: ')}"
    return Finding("cache", False, text, "name a folder that only you can write in DLBLAS_CACHE")


def diagnose(info: Row, row: Row) -> list[Finding]:
    """The findings in the order of a call: where it runs, what compiles it, whose tensors it takes,
    what is kept."""
    return [_cpu(info, row), _gpu(info, row), _nvrtc(info), _torch(), _cache(info)]


def describe(op: str, findings: list[Finding]) -> str:
    lines = [f"{op} on this machine"]
    for f in findings:
        lines.append(f"  {f.name:6} {'yes' if f.used else 'no '}  {f.text}")
        if f.remedy:
            lines.append(f"{'':14}to do: {f.remedy}")
    return "\n".join(lines)
