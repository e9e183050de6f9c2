"""Measuring in a worker, from Python: the same results as in this process, nothing left behind.
tests/cpp/test_worker.cpp covers the failures.

Read next: python/dlblas/_worker.py, docs/tuning.md ("In a worker"), test_worker_ctrl_c.py.
"""

from __future__ import annotations

import os
import shutil
import time

import dlblas
import pytest
from worker_children import PACKAGE, child, children_of, ended, run

TUNE = """
    import json, os, dlblas
    x, w = dlblas.Spec((32, 512), "f32"), dlblas.Spec((512,), "f32")
    fds = len(os.listdir("/proc/self/fd"))
    report = dlblas.tune("rms_norm", (x, w), seconds=60, max_evaluations=6, worker={worker},
                         strategy="exhaustive")  # random looks at times when it draws
    try:
        os.waitpid(-1, os.WNOHANG)
        children = True
    except ChildProcessError:
        children = False
    rows = dlblas.cache.show(dlblas.cache.ls()[0]["hash"])["candidates"]
    print(json.dumps(dict(
        place=report["measured_in"], winner=bool(report["winner"]), children=children,
        leaked=len(os.listdir("/proc/self/fd")) - fds, counters=dlblas.counters(),
        evaluated=len(report["evaluated"]), conditions=report["cache"],
        rows=sorted([r["implementation"], r["config"], r["failure"]] for r in rows),
    )))
"""


def test_a_worker_measures_what_this_process_would(tmp_path):
    there, err = run(TUNE.format(worker=None), tmp_path / "there")
    here, _ = run(TUNE.format(worker=False), tmp_path / "here")
    assert err == ""
    assert (there["place"], here["place"]) == ("worker", "process")
    assert there["winner"] and not there["children"] and there["leaked"] == 0
    assert there["rows"] == here["rows"]
    for key in ("evaluated", "conditions"):
        assert there[key] == here[key]
    assert there["counters"]["measured"] == here["counters"]["measured"] > 0


def test_a_worker_goes_with_its_parent(tmp_path):
    process = child(
        """
        import dlblas
        a = dlblas.Spec((512, 512), "f32")
        dlblas.tune("matmul", (a, a), seconds=60, worker=True,
                    progress=lambda event: print(event.kind, flush=True))
        """,
        tmp_path,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "worker\n"  # is about to start
    process.stdout.readline()
    (worker,) = children_of(process.pid)
    process.kill()
    process.communicate()
    end = time.monotonic() + 20
    while not ended(worker) and time.monotonic() < end:
        time.sleep(0.02)
    assert ended(worker)


MISSING = """
    import json, sys, dlblas
    sys.executable = "/nowhere/python"
    x, w = dlblas.Spec((8, 64), "f32"), dlblas.Spec((64,), "f32")
    report = dlblas.tune("rms_norm", (x, w), seconds=60, max_evaluations=2)
    try:
        dlblas.tune("rms_norm", (x, w), seconds=60, max_evaluations=2, worker=True)
        error = ""
    except dlblas.errors.TuningFailedError as reason:
        error = str(reason)
    print(json.dumps({"place": report["measured_in"], "error": error}))
"""


def test_without_an_executable_this_process_measures_and_says_so(tmp_path):
    got, err = run(MISSING, tmp_path)
    why = "/nowhere/python cannot be executed: No such file or directory"
    assert got["place"] == "process"
    assert err == f"dlblas: rms_norm: no worker, so this process measures: {why}\n"
    assert got["error"] == (
        "rms_norm: worker cannot be had; expected a process that measures, got: "
        f"{why}; measure in this process instead (worker=False)"
    )


PROGRAM = """
    import json, dlblas
    from dlblas import _worker_command
    _worker_command.announce = lambda: None  # as in a program that is not Python
    x, w = dlblas.Spec((8, 64), "f32"), dlblas.Spec((64,), "f32")
    report = dlblas.tune("rms_norm", (x, w), seconds=60, max_evaluations=3)
    print(json.dumps([report["measured_in"], report["no_worker"], len(report["evaluated"])]))
"""


def test_a_program_that_is_not_python_has_one_beside_the_library(tmp_path):
    """As installed and in a wheel; and where only the library was copied."""
    program = (PACKAGE / "dlblas" / "lib" / "libdlblas.so").resolve().parent / "dlblas_worker"
    if not program.exists():
        pytest.skip(f"no {program}")
    there = tmp_path / "there"
    shutil.copytree(PACKAGE / "dlblas", there / "dlblas")
    beside = there / "dlblas" / "lib" / "dlblas_worker"
    beside.unlink(missing_ok=True)
    got, err = run(PROGRAM, tmp_path / "cache", PYTHONPATH=str(there))
    why = f"there is no {beside}, and dlblas_set_worker named none"
    assert got == ["process", why, 3]
    assert err == f"dlblas: rms_norm: no worker, so this process measures: {why}\n"
    shutil.copy(program, beside)
    got, err = run(PROGRAM, tmp_path / "cache", PYTHONPATH=str(there))
    assert got == ["worker", "", 3]
    assert err == ""


IMPORTING = """
    import json, dlblas
    from dlblas import own
    own.modules = lambda: ["{module}"]  # as if they had registered something
    x, w = dlblas.Spec((8, 64), "f32"), dlblas.Spec((64,), "f32")
    report = dlblas.tune("rms_norm", (x, w), seconds=60, max_evaluations=2)
    print(json.dumps(report["measured_in"]))
"""


def test_the_worker_imports_what_registers_users_own(tmp_path):
    note = tmp_path / "imported"
    (tmp_path / "mine.py").write_text(
        f"""
import os, dlblas
x, w = dlblas.Spec((32, 64), "f32"), dlblas.Spec((64,), "f32")  # not what its parent searches
report = dlblas.tune("rms_norm", (x, w), seconds=2, max_evaluations=2)
open({str(note)!r}, "w").write(report["measured_in"])
"""
    )
    path = os.pathsep.join([str(PACKAGE), str(tmp_path)])
    place, err = run(IMPORTING.format(module="mine"), tmp_path / "cache", PYTHONPATH=path)
    assert (place, err) == ("worker", "")
    assert note.read_text() == "process"  # a worker starts no worker


def test_a_module_that_fails_to_import_is_named(tmp_path):
    place, err = run(IMPORTING.format(module="no_such_module"), tmp_path)
    assert place == "process"
    assert "no worker, so this process measures: " in err
    assert "ModuleNotFoundError: No module named 'no_such_module'" in err


def test_the_option_is_checked():
    with pytest.raises(TypeError, match="worker"):
        dlblas.tune("rms_norm", (), worker="yes")


# A user's own candidates, each with its own failure; the worker imports this module.
CANDIDATES = """
import os, time
import numpy as np
import dlblas

@dlblas.register("rms_norm", "mine_hangs", devices="cpu")
def hangs(x, weight, y, **_):
    time.sleep(1000)

@dlblas.register("rms_norm", "mine_crashes", devices="cpu")
def crashes(x, weight, y, **_):
    import ctypes
    ctypes.string_at(8)

@dlblas.register("rms_norm", "mine_exits", devices="cpu")
def exits(x, weight, y, **_):
    os._exit(0)

@dlblas.register("rms_norm", "mine_nan", devices="cpu")
def nan(x, weight, y, **_):
    y[...] = np.nan

@dlblas.register("rms_norm", "mine_raises", devices="cpu")
def raises(x, weight, y, **_):
    raise ValueError("not today")

@dlblas.register("rms_norm", "mine_interrupts", devices="cpu")
def interrupts(x, weight, y, **_):
    raise KeyboardInterrupt

@dlblas.register("rms_norm", "mine_works", devices="cpu")
def works(x, weight, y, eps=1e-6, weight_offset=0.0, cast_before_weight=False):
    mean = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
    y[...] = x / np.sqrt(mean + eps) * (weight + weight_offset)
"""

USERS = """
    import json, os, dlblas
    import candidates
    runs = []
    def closure(x, weight, y, **options):
        runs.append(os.getpid())
        candidates.works(x, weight, y, **options)
    dlblas.register("rms_norm", "mine_here", closure, devices="cpu")
    x, w = dlblas.Spec((8, 64), "f32"), dlblas.Spec((64,), "f32")
    report = dlblas.tune("rms_norm", (x, w), seconds=6, max_evaluations=30)
    failures = {e["implementation"]: [e.get("failure", ""), e.get("note", "")]
                for e in report["evaluated"]}
    print(json.dumps([report["measured_in"], report["winner"]["implementation"], failures,
                      set(runs) == {os.getpid()}]))
"""


def test_failures_of_user_functions_are_told_by_kind_and_contained(tmp_path):
    (tmp_path / "candidates.py").write_text(CANDIDATES)
    path = os.pathsep.join([str(PACKAGE), str(tmp_path)])
    (place, winner, failures, ran_here), _ = run(USERS, tmp_path / "cache", PYTHONPATH=path)
    assert place == "worker" and not winner.startswith("mine_")
    kinds = {name: failures[name][0] for name in failures if name.startswith("mine_")}
    assert kinds == {
        "mine_hangs": "timeout",
        "mine_crashes": "crash",
        "mine_exits": "crash",
        "mine_nan": "wrong_result",
        "mine_raises": "launch_error",
        "mine_interrupts": "launch_error",  # and affects no other: mine_works comes after it
        "mine_works": "",
        "mine_here": "",
    }
    assert "segmentation fault" in failures["mine_crashes"][1]
    assert "candidates.py" in failures["mine_crashes"][1]  # faulthandler says where
    assert ran_here  # the closure, and only the closure
