"""Users' implementations that fork or tamper with their worker's socket: only they fail, and no
record of another one is affected. tests/cpp/test_worker_socket.cpp covers the details.

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

pytestmark = pytest.mark.attack("candidates that fork, or are at their worker's socket")

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
    for turn in range(4):  # 14 of 29 wrong records are what an attack got in 15 of these
        report = tune(256 + 64 * turn, 20, implementations=["forks", "wrong"], worker=True)
        rows = report["evaluated"]
        kinds = {name: [] for name in ("forks", "wrong")}  # type: dict[str, list[str]]
        for row in rows:
            kinds.setdefault(row["implementation"], []).append(row.get("failure", ""))
        assert kinds.pop("wrong") == ["wrong_result"] * 4, rows
        # Once per worker, and four configurations share a worker.
        assert set(kinds.pop("forks")) <= {"", "launch_error"}, rows
        # Defaults beside them: the model's choice, and the winner for the previous size.
        assert kinds and set().union(*kinds.values()) == {""}, rows
        notes = [row["note"] for row in rows if row.get("failure") == "launch_error"]
        assert notes and all("the child came back from it" in note for note in notes), rows


def test_each_is_its_own_failure(names: list[str]) -> None:
    report = tune(64, 40, implementations=[*names, "cpu_baseline"], worker=True)
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
