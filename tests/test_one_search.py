"""Processes and threads that request the same new key at the same time: it is measured once.
tests/cpp/test_turn.cpp covers the details.

Read next: docs/tuning.md ("One search per key"), src/tuner/turn.hpp.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import time

import dlblas
import pytest
from worker_children import child, run

pytestmark = pytest.mark.attack("searches of one key at once, and their holder stopped or killed")

RANK = """
    import json, threading, dlblas
    a, b = dlblas.Spec((48, 96), "f32"), dlblas.Spec((96, 64), "f32")
    reports = []
    def want():
        reports.append(dlblas.get_op("matmul", (a, b), seconds=2, worker=False).report)
    threads = [threading.Thread(target=want) for _ in range(6)]
    for t in threads: t.start()
    for t in threads: t.join()
    print(json.dumps(dict(
        measured=dlblas.counters()["measured"],
        sources=[r["source"] for r in reports],
        winners=sorted({json.dumps(r["winner"]) for r in reports}),
        waited=max(r["waited_s"] for r in reports),
        served=dlblas.explain("matmul", a, b).as_dict()["source"],
    )))
"""
ALONE = RANK.replace("range(6)", "range(1)")


def test_ranks_of_one_host_measure_a_key_once(tmp_path: pathlib.Path) -> None:
    alone, _ = run(ALONE, tmp_path / "alone")
    ranks = [child(RANK, tmp_path / "ranks") for _ in range(4)]
    told = []
    for rank in ranks:
        out, err = rank.communicate(timeout=480)
        assert rank.returncode == 0, err
        told.append(json.loads(out.splitlines()[-1]))
    sources = [source for rank in told for source in rank["sources"]]
    assert sorted(set(sources)) == ["store", "tuned"] and sources.count("tuned") == 1, sources
    # One rank measures: as much as fits into its budget while three other processes start.
    measured = [rank["measured"] for rank in told]
    assert sorted(measured)[:3] == [0, 0, 0] and 0 < max(measured) <= 2 * alone["measured"] + 20
    assert len({json.dumps(rank["winners"]) for rank in told}) == 1
    assert all(rank["served"] == "store" for rank in told)
    (key,) = (tmp_path / "ranks" / "v1" / "results").iterdir()
    assert len(list(key.iterdir())) == 1  # one record
    assert list((tmp_path / "ranks" / "v1" / "locks").iterdir()) == []


HOLDER = """
    import dlblas
    a, b = dlblas.Spec((48, 96), "f32"), dlblas.Spec((96, 64), "f32")
    dlblas.get_op("matmul", (a, b), seconds=60, worker=False, strategy="exhaustive",
                  progress=lambda event: print(event.kind, flush=True))
"""


def test_a_holder_that_is_stopped_or_killed_blocks_others_briefly(
    tmp_path: pathlib.Path,
) -> None:
    holder = child(HOLDER, tmp_path)
    assert holder.stdout is not None
    while holder.stdout.readline().strip() != "measured":
        assert holder.poll() is None
    os.kill(holder.pid, signal.SIGSTOP)
    quick = RANK.replace("seconds=2", "seconds=0.2")
    begin = time.monotonic()
    late, _ = run(quick, tmp_path)
    took = time.monotonic() - begin
    assert set(late["sources"]) == {"default"} and late["measured"] == 0
    assert 2.25 <= late["waited"] < 5 and took < 20
    holder.kill()
    holder.communicate()
    now, _ = run(quick, tmp_path)
    assert sorted(set(now["sources"])) == ["store", "tuned"] and now["measured"] > 0


# Searches its key where it is imported, and a worker imports it.
MODULE = """
    import dlblas, numpy as np
    x, w = np.ones((8, 64), "f"), np.ones(64, "f")

    @dlblas.register("rms_norm", "of_a_module")
    def of_a_module(x, weight, eps, weight_offset, y):
        f = x.astype("d")
        y[...] = f / np.sqrt((f * f).mean(-1, keepdims=True) + eps) * (weight + weight_offset)

    report = dlblas.get_op("rms_norm", (x, w), seconds=3).report
"""


def test_a_module_that_searches_when_it_is_imported_keeps_no_worker_waiting(
    tmp_path: pathlib.Path,
) -> None:
    import textwrap

    (tmp_path / "searching_module.py").write_text(textwrap.dedent(MODULE))
    path = os.pathsep.join([str(pathlib.Path(dlblas.__file__).parent.parent), str(tmp_path)])
    code = """
        import json, time
        begin = time.monotonic()
        import searching_module
        report = searching_module.report
        print(json.dumps([report["measured_in"], report["no_worker"], time.monotonic() - begin]))
    """
    (place, no_worker, took), _ = run(code, tmp_path / "cache", PYTHONPATH=path)
    assert (place, no_worker) == ("worker", "") and took < 10
