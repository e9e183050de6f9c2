"""The first call of a user's candidate in this process is no part of the search's budget, and is
told before it begins.

Read next: src/tuner/in_process.cpp, test_own_worker.py (the same in a worker).
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import dlblas
import numpy as np


def test_a_slow_first_call_takes_nothing_from_the_others() -> None:
    """As torch.compile does; a function that only this process has."""
    called: list[Any] = []
    told: list[tuple[str, bool]] = []

    def watch(event: Any) -> None:
        if event.kind == "first_call":
            told.append((event.implementation, bool(called)))
            assert event.milliseconds == -1

    def slow_once(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        if not called:
            called.append(time.sleep(1.5))
        rms = np.sqrt(np.mean(x.astype(np.float64) ** 2, -1, keepdims=True) + eps)
        y[...] = x / rms * (weight + weight_offset)

    x, w = np.ones((4, 64), np.float32), np.ones(64, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is measured in this process
        own = dlblas.register("rms_norm", "slow_once", slow_once)
        try:
            report = dlblas.tune("rms_norm", (x, w), seconds=1.0, progress=watch)
        finally:
            dlblas.unregister("rms_norm", "slow_once")
    assert own is not None and called
    assert told == [("slow_once", False)]
    measured = {row["implementation"] for row in report.evaluated}
    assert "slow_once" in measured
    assert measured >= {r["implementation"] for r in report.candidates if r["takes_part"]}
    assert len(report.evaluated) > 3 * len(measured)  # and not their defaults alone
