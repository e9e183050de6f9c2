"""A script that registers and tunes, to test what a worker may import of it. Run by
test_own_worker.py as ``__main__``; its arguments say where it registers and, optionally, the
caller's process id."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import dlblas
import numpy as np

WHERE, *REST = sys.argv[1:]
HOME = int(REST[0]) if REST else os.getpid()  # of the process that was started by hand


def crash_elsewhere(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    if os.getpid() == HOME:
        raise RuntimeError("in the caller")
    os.abort()


def good(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    f = x.astype(np.float64)
    y[...] = f / np.sqrt((f * f).mean(-1, keepdims=True) + eps) * (weight + weight_offset)


def register() -> None:
    dlblas.register("rms_norm", "script_bad", crash_elsewhere)
    dlblas.register("rms_norm", "script_good", good)


if WHERE == "body":
    register()

if __name__ == "__main__":
    if WHERE == "guard":
        register()
    sys.argv.append(str(os.getpid()))  # a worker that imports this sees it
    x, w = np.ones((8, 64), np.float32), np.ones(64, np.float32)
    names = ["script_bad", "script_good"]
    report = dlblas.tune("rms_norm", (x, w), seconds=60, implementations=names, worker=True)
    rows = {row["implementation"]: row.get("failure") for row in report["evaluated"]}
    local = {
        row["name"]: row["local"]
        for op in dlblas.info()["operators"]
        if op["name"] == "rms_norm"
        for row in op["implementations"]
        if row["user"]
    }
    cut = {key: report[key] for key in ("source", "why", "stopped", "elapsed_s", "measured_in")}
    modules = dlblas.own.modules()
    print(json.dumps({"rows": rows, "local": local, "modules": modules, "report": cut}))
