"""A GPU section that is interrupted, or reaches its time limit, keeps its rows: each is written to
the file as it arrives. Needs no GPU: a script stands in for the measuring process."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import dlblas
import pytest

PACKAGE = pathlib.Path(dlblas.__file__).parent.parent

# Ignores SIGINT and writes a row every tenth of a second; then, like a compilation, it does not
# respond for a long time.
CHILD = """
import json, signal, sys, time
request = json.load(sys.stdin)
row = {"what": "gpu_rows", "op": "softmax", "dtype": "bf16", "method": {}, "ours": {"name": ""},
       "peers": [], "against": None, "ratio": None, "card": "a card"}
signal.signal(signal.SIGINT, signal.SIG_IGN)
with open(request["result"], "w") as file:
    for i in range(int(sys.argv[1])):
        file.write(json.dumps({**row, "problem": {"T": i}}) + "\\n")
        file.flush()
        time.sleep(0.1)
    if sys.argv[2:]:
        file.write('{"what": "half a r')
        file.flush()
        time.sleep(60)
"""

# argv: the child, the file, --within or "", the number of rows, "hangs" or ""
PARENT = """
import importlib.util, sys
from dlblas import bench
child, out, within, *how = sys.argv[1:]
bench.gpu_child._COMMAND = [sys.executable, "-c", child, *filter(None, how)]
bench.importlib.util.find_spec = lambda name: name
sys.exit(bench.run("gpu_rows", out, None, None, False, "abc",
                   within=float(within) if within else None))
"""


def start(out: pathlib.Path, within: str, rows: int, hangs: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PARENT, CHILD, str(out), within, str(rows)]
    return subprocess.Popen(
        [*command, "hangs" if hangs else ""],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        start_new_session=True,
    )


def numbers(out: pathlib.Path) -> list[int]:
    if not out.exists():
        return []
    lines: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    return [line["problem"]["T"] for line in lines]


def test_rows_are_in_the_file_when_a_run_is_interrupted(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "rows.jsonl"
    with start(out, "", 3, hangs=True) as run:
        until = time.monotonic() + 60
        while numbers(out) != [0, 1, 2] and time.monotonic() < until:  # before any end
            time.sleep(0.05)
        assert run.poll() is None
        run.send_signal(signal.SIGINT)
        told, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert "gpu_rows was interrupted" in errors and f"written: {out}" in told
    assert numbers(out) == [0, 1, 2]


def test_a_limit_holds_while_something_compiles(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "rows.jsonl"
    begin = time.monotonic()
    with start(out, "8", 2, hangs=True) as run:
        told, errors = run.communicate(timeout=40)
    assert time.monotonic() - begin < 8 + 15  # and the start of two processes
    assert run.returncode == 0, errors
    assert "to keep 8 s" in errors and f"written: {out}" in told
    assert numbers(out) == [0, 1]


@pytest.mark.parametrize("within", ["", "30"])
def test_a_run_that_ends_says_nothing(within: str, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "folder" / "rows.jsonl"
    with start(out, within, 4, hangs=False) as run:
        told, errors = run.communicate(timeout=60)
    assert run.returncode == 0 and errors == ""
    assert numbers(out) == [0, 1, 2, 3] and told.count("gpu_rows softmax T=") == 4


CHILD_OF_A_SECTION = """
import os, time
from dlblas.bench.life import end_with_parent
end_with_parent(os.getppid())
print("begun", flush=True)
time.sleep(60)
"""
ITS_PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1]])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_measuring_process_ends_with_its_parent() -> None:
    """One that went on kept a core busy for an hour, and spoilt what was measured next."""
    command = [sys.executable, "-c", ITS_PARENT, CHILD_OF_A_SECTION]
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "begun\n"
        parent.kill()
        begin = time.monotonic()
        assert parent.stdout.read() == ""  # the pipe closes when the child has ended too
        assert time.monotonic() - begin < 30


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
@pytest.mark.parametrize("module", ["children", "gpu"])
def test_a_section_asks_for_it(module: str, tmp_path: pathlib.Path) -> None:
    if module == "gpu":
        pytest.importorskip("torch")
    request = {"section": "host", "parent": os.getpid() + 1, "result": str(tmp_path / "rows")}
    done = subprocess.run(
        [sys.executable, "-m", f"dlblas.bench.{module}"],
        input=json.dumps(request), text=True, capture_output=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
    )  # fmt: skip
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
