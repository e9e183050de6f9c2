"""Users' own implementations that crash, exit, hang or ask for too much: recorded by kind, and this
process goes on. Read next: own_bad_module.py, docs/tuning.md "In a worker".
"""

from __future__ import annotations

import pathlib
import sys
import time
from typing import Any

import dlblas
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
NAMES = ("own_crash", "own_exit", "own_hang", "own_huge", "own_good")


def test_none_of_them_wins_and_none_takes_this_process_down() -> None:
    import own_bad_module  # noqa: F401

    rng = np.random.default_rng(0)
    x: Any = rng.standard_normal((40, 96)).astype(np.float32)
    w: Any = rng.standard_normal(96).astype(np.float32)
    assert "own_bad_module" in dlblas.own.modules()
    try:
        begin = time.monotonic()
        report = dlblas.tune(
            "rms_norm", (x, w), seconds=8, implementations=list(NAMES), worker=True
        )
        assert time.monotonic() - begin < 60
        assert report["measured_in"] == "worker"
        kinds = {
            row["implementation"]: row.get("failure")
            for row in report["evaluated"]
            if row["implementation"] in NAMES
        }
        assert kinds["own_crash"] == "crash" and kinds["own_exit"] == "crash", kinds
        assert kinds["own_hang"] == "timeout", kinds
        assert kinds["own_huge"] in ("launch_error", "out_of_memory"), kinds
        assert not kinds["own_good"], kinds
        assert report["winner"]["implementation"] == "own_good"
        y = dlblas.rms_norm(x, w)
        assert dlblas.verify("rms_norm", (x, w), y).ok
        rows = dlblas.explain("rms_norm", x, w).as_dict()["candidates"]
        told = {row["implementation"]: row.get("failure") for row in rows}
        assert told["own_crash"] == "crash" and told["own_hang"] == "timeout"
    finally:
        for name in NAMES:
            dlblas.unregister("rms_norm", name)
    assert "own_bad_module" not in dlblas.own.modules()  # nothing of it is left
