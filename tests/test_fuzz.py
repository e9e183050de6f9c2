"""Fuzzing in CI: one C++ target with a printed seed for a few seconds, or its corpus where clang is
missing; calls of the array protocols and of the C ABI likewise; the command line, rows of
cases.json and the environment by Hypothesis, derandomised.
`make fuzz` runs every target longer: it sets DLBLAS_FUZZ_EXAMPLES and its own seed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import random
import subprocess
import sys
from typing import Any

import dlblas
import pytest
from dlblas import _specs, cli
from hypothesis import example, given, settings
from hypothesis import strategies as st

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = int(os.environ.get("DLBLAS_FUZZ_EXAMPLES", "0"))
TARGETS = sorted(p.stem for p in (ROOT / "tests" / "fuzz").glob("fuzz_*.cpp"))


def examples(usual: int) -> settings:
    """The usual number of examples, always the same ones, or as many random ones as tools/fuzz.py
    requests."""
    return settings(
        max_examples=EXAMPLES or usual, derandomize=not EXAMPLES, deadline=None, database=None
    )


@pytest.mark.skipif(bool(EXAMPLES), reason="tools/fuzz.py runs this")
def test_a_target_by_a_printed_seed() -> None:
    seed = random.randrange(1, 1 << 30)
    target = TARGETS[seed % len(TARGETS)]
    print(f"seed {seed}: {target}")
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py"), "--only", target]
    command += ["--seconds", "5", "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(bool(EXAMPLES), reason="tools/fuzz.py runs this")
@pytest.mark.parametrize("name", ["arrays", "c_abi"])
def test_calls_by_a_printed_seed(name: str) -> None:
    seed = random.randrange(1, 1 << 30)
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py"), "--only", name]
    command += ["--seconds", "4", "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name}: ok; Done " in done.stdout


def test_a_finding_of_calls_names_the_call(tmp_path: pathlib.Path) -> None:
    """A crash, an exception and a hang are reported with the seed and number that repeat them."""
    program = tmp_path / "calls_crash.py"
    program.write_text(
        "import ctypes, sys\n"
        f"sys.path.insert(0, {str(ROOT / 'tests' / 'fuzz')!r})\n"
        "import calls\n"
        "def one(r):\n"
        "    n = r.randrange(40)\n"
        "    if n == 7: ctypes.string_at(8)\n"
        "    assert n != 8, 'eight'\n"
        "    return n % 2\n"
        "sys.exit(calls.main('crash', lambda: one))\n"
    )
    seen = set()
    for seed in range(8):
        command = [sys.executable, str(program), "--calls", "1000"]
        done = subprocess.run(
            [*command, "--seed", str(seed)], capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 1
        again = done.stdout.splitlines()[-1].removeprefix("again: ").split()
        repeated = subprocess.run(
            [sys.executable, *again], capture_output=True, text=True, timeout=240
        )
        first, second = (text.partition("exit")[0] for text in (done.stdout, repeated.stdout))
        assert first == second and f"by seed {seed}" in first
        seen.add("eight" in repeated.stdout)
        assert ("eight" in repeated.stdout) != ("Segmentation fault" in repeated.stdout)
    assert seen == {True, False}


LINE = (
    "info list explain tune cache ls show verify rules pin unpin forbid allow export import merge "
    "compact path rms_norm matmul cpu_avx2 --dims T=4,C=8 T= =4 C=-1 T=2x256 --dtype bf16 f32 "
    "--arg eps=1e-6 bias=true --device cpu cuda:9 --json --seconds 0 nan -1 --strategy random "
    "--space a=b,c --where x*y<=2 --implementations --max-evaluations --key --help -- - x"
)
WORDS = st.sampled_from(LINE.split())
SAFE = {"explain", "cache", "list", "info"}
# Arguments as a shell passes them: arbitrary bytes, with invalid UTF-8 as lone surrogates.
BYTES = st.binary(max_size=6).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"")))
LINES = st.lists(WORDS | st.text(max_size=12) | BYTES, max_size=8)


@examples(150)
@given(first=st.sampled_from(sorted(SAFE)), rest=LINES)
def test_a_command_line_ends_in_a_word(
    first: str, rest: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It ends with an exit code of the contract and, unless that is 0, a line that says why; never
    a traceback."""
    if {"export", "import", "merge", "pin", "forbid", "clear"} & set(rest):
        return  # these change things: tests/test_cache.py
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main([first, *rest])
        except SystemExit as end:
            code = int(end.code or 0)
    assert code in (0, 1, 2)
    if code == 2:
        assert err.getvalue().strip() or "usage" in out.getvalue()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


ROW: dict[str, Any] = json.loads(
    (ROOT / "ops/norm/rms_norm/cases.json").read_text(encoding="utf-8")
)[0]


@examples(150)
@given(
    args=st.dictionaries(st.sampled_from(["x", "weight", "eps", "no_such"]) | st.text(), VALUES),
    dtype=st.sampled_from(["f32", "bf16", "f8"]) | st.text(max_size=6),
)
def test_a_row_of_cases_is_taken_or_refused(args: dict[str, Any], dtype: str) -> None:
    """Arguments and dtypes of any shape in a row of cases.json give a problem or dlblas.Error."""
    operator, _, fixed = _specs.operator_row(ROW["op"])
    with contextlib.suppress(dlblas.Error):
        _specs.named_arguments(operator, ROW["dims"], {"": dtype}, {**args, **fixed}, "cpu")


VARIABLES = [entry["name"] for entry in dlblas.info()["environment"]]
USUAL = st.sampled_from(
    ["", "0", "1", "-1", "nan", "1e999", "99999999999999999999", "off", "/", ":"]
)
USE = (
    "import dlblas, numpy as np; x = np.ones((4, 8), 'f'); w = x[0].copy(); dlblas.info(); "
    "dlblas.rms_norm(x, w); str(dlblas.explain('rms_norm', x, w)); dlblas.cache.ls()"
)


@examples(6)
@example(values={name: os.fsdecode(b"\xff\xfe") for name in VARIABLES})
@given(values=st.fixed_dictionaries({}, optional=dict.fromkeys(VARIABLES, USUAL | BYTES)))
def test_an_environment_of_any_bytes_stops_nothing(
    values: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A process with it can call, explain and list; only DLBLAS_REQUIRE_HIT makes a call an
    error."""
    folder = os.fspath(tmp_path_factory.mktemp("cache"))
    root = f"{folder}/{values.get('DLBLAS_CACHE', '').replace('/', '_')}"
    environment = {**os.environ, **values, "DLBLAS_CACHE": root}
    if log := values.get("DLBLAS_LOG_FILE"):  # a file of any name, but here
        environment["DLBLAS_LOG_FILE"] = log.replace("/", "_")
    done = subprocess.run(
        [sys.executable, "-c", USE], env=environment, capture_output=True, text=True,
        errors="replace", timeout=240, cwd=folder,
    )  # fmt: skip
    refused = "DLBLAS_REQUIRE_HIT" in values and "DLBLAS_REQUIRE_HIT is set" in done.stderr
    assert done.returncode == 0 or refused, done.stderr
