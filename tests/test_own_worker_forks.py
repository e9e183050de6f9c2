"""Users' implementations that fork, or are at their worker's socket: their own failure, and never
another's record. The finer points are tests/cpp/test_worker_socket.cpp's.

Read next: own_forking_module.py, docs/tuning.md ("In a worker").
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

BUILT_IN = ("cpu_baseline", "cpu_avx2", "cpu_avx512")


@pytest.fixture(scope="module")
def names() -> Iterator[list[str]]:
    import own_forking_module

    yield own_forking_module.NAMES
    for name in own_forking_module.NAMES:
        dlblas.unregister("rms_norm", name)


def tune(rows: int, seconds: float, **options: Any) -> dlblas.TuningReport:
    x = np.random.default_rng(0).standard_normal((rows, 4096)).astype(np.float32)
    w = np.ones(4096, np.float32)
    return dlblas.tune("rms_norm", (x, w), seconds=seconds, **options)


def test_a_wrong_one_beside_one_that_forks_is_never_right(names: list[str]) -> None:
    chosen = ["forks", "wrong", *BUILT_IN]
    for turn in range(4):  # 14 of 29 wrong records are what an attack got in 15 of these
        report = tune(
            256 + 64 * turn, 3, where=lambda implementation: implementation in chosen, worker=True
        )
        for row in report["evaluated"]:
            failure = row.get("failure", "")
            if row["implementation"] == "wrong":
                assert failure == "wrong_result", row
            elif row["implementation"] in BUILT_IN:
                assert failure == "", row
            elif row["implementation"] == "forks":
                # Once in each worker, and four configurations share one.
                assert failure in ("", "launch_error", "timeout"), row
        forks = [e for e in report["evaluated"] if e["implementation"] == "forks"]
        notes = [e["note"] for e in forks if e.get("failure")]
        assert any("the child came back from it" in note for note in notes), forks
        assert report["winner"]["implementation"] != "wrong"


def test_each_is_its_own_failure(names: list[str]) -> None:
    report = tune(64, 12, implementations=[*names, "cpu_baseline"], worker=True)
    kinds: dict[str, set[str]] = {}
    for row in report["evaluated"]:
        kinds.setdefault(row["implementation"], set()).add(row.get("failure", ""))
    for name in ("forks_twice", "raises_in_child", "exits_in_child"):
        assert kinds[name] == {"launch_error"}, (name, kinds)
    assert kinds["closes"] == kinds["writes"] == {"crash"}, kinds
    for name in ("runs_a_program", "forks_a_program", "leaves_a_helper", "cpu_baseline"):
        assert kinds[name] == {""}, (name, kinds)
    assert kinds["wrong"] == {"wrong_result"}, kinds
    assert kinds["writes_later"] <= {"", "crash"}, kinds
    known = dlblas.explain(
        "rms_norm", np.ones((64, 4096), np.float32), np.ones(4096, np.float32)
    ).as_dict()["candidates"]
    assert not any(row.get("failure") for row in known if row["implementation"] in BUILT_IN)
