"""A search measures on one call, but its winner serves many: a function never wins if it keeps the
first call's tensors or their contents, or if it is right only for small values.

Read next: own_kept_module.py, src/tuner/looks.cpp, test_looks.py (right ones lose nothing by it).
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import dlblas
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
FAILURES = ("wrong_result", "out_of_bounds", "unwritten")


@pytest.fixture(scope="module")
def kept() -> Iterator[Any]:
    """Imports the module that registers them only here, so that other tests do not see them."""
    import own_kept_module

    yield own_kept_module
    for op, functions in own_kept_module.WRONG.items():
        for function in functions:
            dlblas.unregister(op, f"kept_{function.__name__}")
    dlblas.unregister("silu", "kept_right")
    del sys.modules["own_kept_module"]  # another use of the fixture registers them again


def call_of(op: str, rows: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, 256), np.float32)
    if op == "rms_norm":
        return x, rng.standard_normal(256, np.float32)
    if op == "lora_shrink":
        a, adapters = rng.standard_normal((2, 24, 256), np.float32), rng.integers(0, 2, rows)
        return x, a, adapters.astype(np.int32), np.zeros((rows, 24), np.float32)
    return (x,)


@pytest.mark.parametrize("worker", [True, False], ids=["in a worker", "here"])
@pytest.mark.parametrize("op", ["silu", "softmax", "rms_norm", "lora_shrink"])
def test_what_keeps_its_first_call_never_wins(
    op: str, worker: bool, kept: Any, attacked: Callable[..., None]
) -> None:
    wrong = [f"kept_{function.__name__}" for function in kept.WRONG[op]]
    broke = []
    for rows in (1, 64, 3000):
        kept.KEPT.clear()
        names = [*wrong, "cpu_baseline", *(["kept_right"] if op == "silu" else [])]
        report = dlblas.tune(
            op, call_of(op, rows), seconds=20, max_evaluations=len(names), implementations=names,
            force=True, worker=worker,
        )  # fmt: skip
        assert report["measured_in"] == ("worker" if worker else "process")
        found = {e["implementation"]: e for e in report["evaluated"]}
        for name in wrong:
            if found[name].get("failure") not in FAILURES:
                broke.append((rows, found[name]))
        for name in names[len(wrong) :]:
            assert "failure" not in found[name], found[name]
        assert report["winner"]["implementation"] not in wrong
    assert not broke, broke
    attacked("candidates that keep their first call, or are right for small values", 3 * len(wrong))
