"""tools/gpu_check, as far as it runs without a GPU: the benchmarks' peers are compiled beside the
tests, the benchmarks wait for that, and a failure there is a line of the table."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import pathlib
import sys
from typing import Any

import dlblas
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def gpu_check() -> Any:
    path = str(ROOT / "tools" / "gpu_check")
    loader = importlib.machinery.SourceFileLoader("gpu_check", path)
    spec = importlib.util.spec_from_loader("gpu_check", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module  # NamedTuple looks its module up
    loader.exec_module(module)
    return module


def _script(*lines: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(("import pathlib, sys, time", *lines))]


def test_preparing_is_a_stage_beside_the_groups(gpu_check: Any, tmp_path: pathlib.Path) -> None:
    stages = gpu_check.benches(tmp_path, "abc")
    assert [s.name for s in stages] == ["prepare", *gpu_check.BENCHES]
    assert stages[0].command[-3:] == ["bench", "gpu", "--prepare"]
    assert stages[0].group == gpu_check.BESIDE and {s.group for s in stages[1:]} == {""}


def test_groups_do_not_wait_for_it_and_what_runs_alone_does(
    gpu_check: Any, tmp_path: pathlib.Path
) -> None:
    def waits(name: str) -> list[str]:  # 20 s for a file, then leaves its own
        path, mine = tmp_path / name, tmp_path / f"after {name}"
        return _script(
            f"path = pathlib.Path({str(path)!r})",
            "end = time.monotonic() + 20",
            "while not path.exists() and time.monotonic() < end: time.sleep(0.02)",
            f"pathlib.Path({str(mine)!r}).touch()",
            "sys.exit(not path.exists())",
        )

    asks = f"sys.exit(not pathlib.Path({str(tmp_path / 'after after go')!r}).exists())"
    go = f"pathlib.Path({str(tmp_path / 'go')!r}).touch()"
    stage = gpu_check.Stage
    runner = gpu_check.Runner(tmp_path, dict(os.environ), 60)
    runner.run_all(
        [
            stage("alone", _script(asks), 30, ""),
            stage("prepare", waits("after go"), 30, gpu_check.BESIDE),
            stage("first", _script(go), 30, "first"),
            stage("second", waits("go"), 30, "second"),
        ]
    )
    assert {r.name: r.verdict for r in runner.results} == dict.fromkeys(
        ("first", "second", "prepare", "alone"), "ok"
    )
    assert runner.results[-1].name == "alone"


def test_its_failure_is_told_and_stops_nothing(gpu_check: Any, tmp_path: pathlib.Path) -> None:
    runner = gpu_check.Runner(tmp_path, dict(os.environ), 60)
    runner.run_all(
        [
            gpu_check.Stage("prepare", _script("sys.exit('no compiler')"), 30, gpu_check.BESIDE),
            gpu_check.Stage("gpu_norm", _script("print('written')"), 30, ""),
        ]
    )
    told = {r.name: (r.verdict, r.note) for r in gpu_check.judged(runner)}
    assert told == {"prepare": ("failed", "no compiler"), "gpu_norm": ("ok", "written")}


def test_compiled_kernels_are_those_of_this_run(
    gpu_check: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TRITON_CACHE_DIR", "QUACK_CACHE_DIR"):
        monkeypatch.setenv(name, "/somewhere/else")
    env = gpu_check.environment(tmp_path / "package", tmp_path)
    assert env["TRITON_CACHE_DIR"] == str(tmp_path / "triton")
    assert env["QUACK_CACHE_DIR"] == str(tmp_path / "quack")


def test_faults_come_first_and_name_operators(gpu_check: Any, tmp_path: pathlib.Path) -> None:
    assert {*gpu_check.faulty()} <= {*dlblas.list_operators()} and len(gpu_check.faulty()) > 5
    stages = gpu_check.faults(tmp_path)
    assert {s.group for s in stages} == {"faults"}
    for stage in stages:
        assert stage.seconds <= 300 and (stage.command[0] or stage.missing)


def test_the_table_has_the_worst_on_top(gpu_check: Any) -> None:
    verdicts = ["ok", "not run", "timed out", "failed", "ok"]
    done = [gpu_check.Result(f"s{i}", v, 1.0, "") for i, v in enumerate(verdicts)]
    names = [line.split()[0] for line in gpu_check.table(done).splitlines()]
    assert names == ["s3", "s2", "s1", "s0", "s4"]


def test_sections_that_end_themselves_end_before_their_stage(
    gpu_check: Any, tmp_path: pathlib.Path
) -> None:
    for stage in gpu_check.benches(tmp_path, "abc"):
        if stage.name in gpu_check.ENDS_ITSELF:
            within = stage.command[stage.command.index("--within") + 1]
            assert int(within) < stage.seconds


def test_attacks_of_a_gpu_are_kept(gpu_check: Any, tmp_path: pathlib.Path) -> None:
    """The two stages that have attacks keep them; the choice of tests does not change."""
    kept = {}
    for stage in gpu_check.python_tests(tmp_path):
        words = stage.command
        if "--keep-attacks" in words:
            kept[stage.name] = words[words.index("--keep-attacks") + 1]
        assert "--attacks" not in words
    here = tmp_path.resolve()
    assert kept == {name: str(here / f"attacks_{name}.json") for name in ("tests", "worker")}
