"""NVRTC milliseconds of the kernels that each operator chooses on a GPU that need not be present.

Every operator's bench cases (else those of a search) in bf16, for sm_90a: what ``dlblas compile``
compiles, one kernel after the other, in fresh processes with an empty store. Processors are shared,
so a problem's time is the minimum over all rounds; an operator's is that of its slowest problem.
Used by: children.py. Read next: gpu_compile.py (the same for each implementation, on a GPU's
machine).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import dlblas
from dlblas import _native, _specs
from dlblas.bench.life import end_with_parent

Row = dict[str, Any]

_ARCH, _DTYPE = "sm_90a", "bf16"
_ROUNDS = 3


def _first_uses(op: Row) -> dict[str, tuple[float, str]]:
    """For each problem that compiles: milliseconds per kernel, and the chosen implementation."""
    times: dict[str, tuple[float, str]] = {}
    for case in _specs.cases(op, "bench") or _specs.cases(op, "tune"):
        if _DTYPE not in case["dtypes"]:
            continue
        sizes = case["dims"]
        device = _specs.choose_device(_ARCH, absent=True)
        named = _specs.named_arguments(op, sizes, {"": _DTYPE}, case.get("args", {}), device)
        before = _native.counters()["compiled"]
        begin = time.perf_counter()
        try:
            dlblas.warmup(op["name"], **named)
        except dlblas.Error:
            continue  # what needs the GPU itself: cuBLASLt's list of algorithms
        elapsed = (time.perf_counter() - begin) * 1e3
        if kernels := _native.counters()["compiled"] - before:
            chosen = dlblas.explain(op["name"], **named).as_dict()["implementation"]
            times[json.dumps(sizes)] = elapsed / kernels, chosen
    return times


def _round(ops: list[str]) -> dict[str, dict[str, tuple[float, str]]]:
    """The times of ``ops``, measured in a fresh process with an empty store."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            env={**os.environ, "DLBLAS_CACHE": folder},
            input=json.dumps(ops),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: dict[str, dict[str, tuple[float, str]]] = json.loads(done.stdout)
    return found


def operators(quick: bool, only: list[str]) -> list[Row]:
    """One row for each operator that compiles something."""
    info = _native.info()
    if why_not := info["cuda"]["nvrtc_why_not"]:
        missing = {"name": "NVRTC", "missing": why_not}
        return [_row("rms_norm", "norm", {"arch": _ARCH}, missing)]
    families = {row["name"]: row["family"] for row in info["operators"]}
    names = [name for name in families if not only or name in only]
    rounds = [_round(names[:3] if quick else names) for _ in range(1 if quick else _ROUNDS)]
    rows = []
    for op, first in rounds[0].items():
        least = {k: min(r[op].get(k, first[k])[0] for r in rounds) for k in first}
        if not least:
            continue
        slowest = max(least, key=lambda k: least[k])
        ours = {
            "name": first[slowest][1],
            "min_ms": least[slowest],
            "median_ms": statistics.median(r[op].get(slowest, first[slowest])[0] for r in rounds),
            "problems": len(least),
            "rounds": len(rounds),
        }
        rows.append(_row(op, families[op], {**json.loads(slowest), "arch": _ARCH}, ours))
    return rows


def _row(op: str, family: str, problem: Row, ours: Row) -> Row:
    return {
        "what": "compile",
        "op": op,
        "family": family,
        "problem": problem,
        "dtype": _DTYPE,
        "ours": ours,
        "peers": [],
        "against": None,
        "ratio": None,
    }


def main() -> int:
    """One round: reads operator names from stdin, writes their times to stdout."""
    end_with_parent()
    # The first compilation of a process also loads NVRTC; no kernel's time should include that.
    x, weight = (dlblas.Spec(shape, "f32", device=_ARCH) for shape in ((64, 1000), (1000,)))
    dlblas.warmup("rms_norm", x, weight)
    wanted = json.load(sys.stdin)
    found = {
        row["name"]: _first_uses(row)
        for row in _native.info()["operators"]
        if row["name"] in wanted
    }
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
