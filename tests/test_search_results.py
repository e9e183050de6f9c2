"""What a search leaves behind: one that was cut short says so and continues if given more time;
failures keep their messages.

Read next: src/dispatch/extent.hpp, src/tuner/publish.cpp, docs/tuning.md.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import dlblas
import pytest
from dlblas._cli_cache import _failed

pytest.importorskip("numpy")


def test_a_cut_search_says_so_and_goes_on() -> None:
    a, b = dlblas.Spec((300, 700), "f32"), dlblas.Spec((700, 500), "f32")
    cut = dlblas.tune("matmul", (a, b), seconds=0.2, progress=False)
    assert len(cut.evaluated) < cut["planned"], "pick a larger problem"
    words = f": {len(cut.evaluated)} of {cut['planned']} configurations, 0.2 s, cut; more: get_op(…"
    assert words in cut.why and words in str(cut)
    why = dlblas.explain("matmul", a, b).as_dict()["why"]
    told = re.search(r": (\d+) of (\d+) configurations, 0.2 s, cut; more: (get_op.*)", why)
    assert told and told[3] == "get_op(…, seconds=0.4)", why
    assert (int(told[1]), int(told[2])) == (len(cut.evaluated), cut["planned"])
    options: Any = {"progress": False}
    assert dlblas.get_op("matmul", (a, b), seconds=0.3, **options).report.source == "store"
    more = dlblas.get_op("matmul", (a, b), seconds=2, **options).report
    assert more.source == "tuned" and len(more.evaluated) > len(cut.evaluated)
    assert dlblas.get_op("matmul", (a, b), seconds=2, **options).report.source == "store"


def test_a_whole_search_is_not_cut() -> None:
    x, w = dlblas.Spec((24, 72), "f32"), dlblas.Spec((72,), "f32")
    whole = dlblas.tune("rms_norm", (x, w), seconds=10, progress=False)
    assert "cut" not in dlblas.explain("rms_norm", x, w).as_dict()["why"]
    assert "configurations" not in whole.why
    again = dlblas.get_op("rms_norm", (x, w), seconds=100, progress=False)
    assert again.report.source == "store"


@pytest.fixture
def broken() -> Iterator[str]:
    name = f"broken_{uuid.uuid4().hex[:8]}"

    def boom(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        raise RuntimeError("boom\x1b[2J")

    dlblas.register("rms_norm", name, boom)
    yield name
    dlblas.unregister("rms_norm", name)


def test_failures_keep_their_words(broken: str) -> None:
    x, w = dlblas.Spec((24, 88), "f32"), dlblas.Spec((88,), "f32")
    report = dlblas.tune("rms_norm", (x, w), seconds=5, progress=False)
    words = "launch_error: "
    assert f"{broken} failed: {words}" in str(report) and "RuntimeError: boom\\x1b" in str(report)
    told = dlblas.explain("rms_norm", x, w)
    (line,) = [text for text in str(told).splitlines() if text.startswith(f"  {broken} failed: ")]
    assert words in line and "RuntimeError: boom\\x1b[2J" in line, line
    (row,) = [r for r in told.as_dict()["candidates"] if r["implementation"] == broken]
    assert row["failure"] == "launch_error" and "RuntimeError: boom" in row["note"]
    kept = [
        candidate
        for key in dlblas.cache.ls()
        for candidate in dlblas.cache.show(key["hash"])["candidates"]
        if candidate["implementation"] == broken
    ]
    assert kept and "RuntimeError: boom" in kept[0]["note"]
    assert _failed(kept[0]).startswith("failed: launch_error: ")


def test_a_time_of_the_race_is_marked() -> None:
    x, w = dlblas.Spec((24, 104), "f32"), dlblas.Spec((104,), "f32")
    call = dlblas.get_op("rms_norm", (x, w), seconds=5, progress=False)
    report, rows = call.report, call.explain().as_dict()["candidates"]
    shown = next(row for row in rows if row["chosen"])
    own = [
        e["ms"]
        for e in report.evaluated
        if (e["implementation"], e["config"]) == (shown["implementation"], shown["config"])
    ]
    assert own == [shown["measured_ms"]] and "~" not in repr(call)
    won = next(c for c in report.candidates if c["implementation"] == shown["implementation"])
    marked = re.compile(rf"{won['implementation']} +~[\d.]+ µs")
    assert won["samples"] >= 5 and not marked.search(str(report))
    won["samples"] = 2
    assert marked.search(str(report)), str(report)
