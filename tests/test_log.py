"""DLBLAS_LOG: one line per call and per step of a search, in Python's logging, in a file, on fd 2.

Read next: src/core/log.hpp, python/dlblas/_log.py.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import dlblas
import pytest

np = pytest.importorskip("numpy")
W = np.ones((4, 8), "f")
PACKAGE = pathlib.Path(dlblas.__file__).parent.parent
CALL = re.compile(
    r"dlblas,call,rms_norm,T=16 C=96,f32,cpu,cpu_\w+,store=\S+ [^,]+,(model|store),\d+(\.\d+)?us"
)
USE = """
import numpy as np, dlblas
x, w = np.ones((16, 96), "f"), np.ones(96, "f")
y = dlblas.rms_norm(x, w)
"""
KEEP = """
import logging
kept = []
class Keep(logging.Handler):
    def emit(self, record):
        kept.append((record.levelname, record.name, record.getMessage()))
logging.getLogger().addHandler(Keep())
"""


def child(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DLBLAS_LOG")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**kept, "PYTHONPATH": str(PACKAGE), **env},
        capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_without_a_listener() -> None:
    done = child(USE)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_line_a_call() -> None:
    done = child(USE + USE, DLBLAS_LOG="call")
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and all(CALL.fullmatch(line) for line in lines), lines


def test_lines_arrive_in_pythons_logging() -> None:
    done = child(KEEP + USE + "print(kept)", DLBLAS_LOG="call")
    ((level, name, line),) = eval(done.stdout)
    assert (level, name) == ("INFO", "dlblas") and CALL.fullmatch(line)
    assert done.stderr == ""


def test_lines_of_other_threads_arrive() -> None:
    code = "import threading\ndef use():\n" + "".join(f"    {line}\n" for line in USE.split("\n"))
    code += "threads = [threading.Thread(target=use) for _ in range(4)]\n"
    code += "[t.start() for t in threads]; [t.join() for t in threads]\n"
    done = child(KEEP + code + "import time; time.sleep(0.01)\nprint(len(kept))", DLBLAS_LOG="call")
    assert done.stdout == "4\n" and done.stderr == ""


def test_a_line_a_step_of_a_search() -> None:
    tune = 'dlblas.tune("rms_norm", (x, w), seconds=1, max_evaluations=3, progress=False)\n'
    done = child(USE + tune, DLBLAS_LOG="search")
    lines = [line.split(",") for line in done.stderr.splitlines()]
    assert all(
        line[:6] == ["dlblas", "search", "rms_norm", "T=16 C=96", "f32", "cpu"] for line in lines
    )
    kinds = [line[6] for line in lines]
    assert kinds[0] == "start" and kinds[-1] == "done"
    measured = [line[7:9] for line in lines if line[6] == "measured"]
    # A measurement that other work may have slowed is repeated, which adds a line.
    assert len({*map(tuple, measured)}) == 3 <= len(measured) <= 6
    both = child(USE + tune, DLBLAS_LOG="info,search,call").stderr
    assert ",call," in both and ",search," in both


def test_a_file_for_each_process(tmp_path: pathlib.Path) -> None:
    name = str(tmp_path / "log.%p")
    done = child(USE + "import os; print(os.getpid())", DLBLAS_LOG="call", DLBLAS_LOG_FILE=name)
    assert done.stderr == ""
    line = (tmp_path / f"log.{done.stdout.strip()}").read_text()
    assert CALL.fullmatch(line.removesuffix("\n"))
    done = child(USE, DLBLAS_LOG="call", DLBLAS_LOG_FILE=str(tmp_path / "no" / "log"))
    assert "DLBLAS_LOG_FILE cannot be written; expected a file, got" in done.stderr
    assert ",call," in done.stderr


@pytest.mark.parametrize("wrong", ["debug", "1", "call,serch_", "call,,info"])
def test_wrong_values_are_told(wrong: str) -> None:
    said = child(USE, DLBLAS_LOG=wrong).stderr
    words = wrong.split(",")[1 if "," in wrong else 0] or "an empty word"
    assert (
        "dlblas: DLBLAS_LOG has a wrong value; expected off, warn, info, call, search, compile or "
        f"nvtx, several by comma, got {words}; it is ignored" in said
    )
    assert said.count("wrong value") == 1
    assert (",call," in said) == wrong.startswith("call")


def test_warnings_are_warnings() -> None:
    """The library's own warning: the first search reads DLBLAS_TUNE_SECONDS and finds no number."""
    tune = 'dlblas.tune("rms_norm", (x, w), max_evaluations=1, progress=False)\n'
    env = {"DLBLAS_TUNE_SECONDS": "soon"}
    done = child(KEEP + USE + tune + "print(kept)", **env)
    ((level, name, line),) = eval(done.stdout)
    assert (level, name) == ("WARNING", "dlblas") and "DLBLAS_TUNE_SECONDS" in line
    assert "DLBLAS_TUNE_SECONDS" in child(USE + tune, **env).stderr
    assert child(USE + tune, DLBLAS_LOG="off", **env).stderr == ""


def test_each_problem_without_a_fast_implementation_is_told_up_to_some() -> None:
    calls = """
import numpy as np, dlblas
for n in (8, 8, 9, *range(16, 100, 8)):
    dlblas.silu(np.ones((4, n), "f"))
"""
    rows = dlblas.explain("silu", W).as_dict()["candidates"]
    names = [row["implementation"] for row in rows if row["implementation"] != "reference"]
    said = child(calls, DLBLAS_DISABLE=",".join(names)).stderr.splitlines()
    lines = [line for line in said if "no fast implementation supports" in line]
    assert len(lines) == len({*lines}) == 8 and "F=8]" in lines[0] and "F=9]" in lines[1], said
    assert [line.endswith("others of this operator are not told") for line in lines].index(
        True
    ) == 7


def test_info_names_the_variables() -> None:
    names = {row["name"] for row in dlblas.info()["environment"]}
    assert {"DLBLAS_LOG", "DLBLAS_LOG_FILE", "DLBLAS_PROGRESS"} <= names


def test_torch_logs_asks_as_well() -> None:
    for asked in ("dlblas", "dynamo,+dlblas"):
        done = child(USE, TORCH_LOGS=asked)
        assert len(CALL.findall(done.stderr)) == 1, done.stderr
    assert "call," not in child(USE, TORCH_LOGS="dynamo,-dlblas").stderr
    assert "call," not in child(USE, TORCH_LOGS="dlblas", DLBLAS_LOG="warn").stderr


def test_torch_prints_them_among_its_own() -> None:
    pytest.importorskip("torch")
    done = child("import torch\n" + USE, TORCH_LOGS="+dlblas")
    assert len(CALL.findall(done.stderr)) == 1, done.stderr


def test_variables_that_are_nearly_ours_and_flags_that_are_none_are_told() -> None:
    said = child(
        USE, DLBLAS_CACHE_DIR="/nowhere", DLBLAS_LOGS="call", DLBLAS_THREADS="2",
        DLBLAS_JIT="maybe", DLBLAS_REQUIRE_HIT="0", DLBLAS_OF_OTHERS="1", DLBLAS_TEST_SEED="3",
    ).stderr  # fmt: skip
    for name, meant in (
        ("DLBLAS_CACHE_DIR", "DLBLAS_CACHE"),
        ("DLBLAS_LOGS", "DLBLAS_LOG"),
        ("DLBLAS_THREADS", "DLBLAS_NUM_THREADS"),
    ):
        assert said.count(f"{name}: variable is unknown; did you mean {meant}?") == 1, said
    assert "DLBLAS_JIT has a wrong value; expected 0 or 1, got maybe; it counts as 0" in said
    assert not any(word in said for word in ("REQUIRE_HIT", "OTHERS", "SEED"))
    assert child(USE, DLBLAS_CACHE_DIR="/nowhere", DLBLAS_LOG="off").stderr == ""


def test_libraries_that_are_not_there_are_told_once(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib").mkdir()
    libraries = f"{tmp_path}/lib:/no/such/folder:{tmp_path}/none.so:"
    search = 'dlblas.tune("rms_norm", (x, w), seconds=6, max_evaluations=1, worker=True)\n'
    said = child(USE + search, DLBLAS_LIBS=libraries, DLBLAS_PROGRESS="0").stderr
    for missing in ("/no/such/folder", f"{tmp_path}/none.so"):
        words = "DLBLAS_LIBS has a wrong value; expected files or folders that exist, got "
        assert said.count(f"{words}{missing}; it is skipped\n") == 1, said
    assert said.count("\n") == 2, said
    assert child(USE, DLBLAS_LIBS=f"{tmp_path}/lib").stderr == ""
