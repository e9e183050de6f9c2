"""The command line as scripts and people use it: exit codes, text and JSON of every command, logs
without a terminal, a single updated line on a terminal, Ctrl-C."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import shlex
import signal
import subprocess
import sys
from typing import Any

import pytest
from depth import some

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPERATORS = {"matmul", "rms_norm", "add_rms_norm"}
SMALL = ("--dims", "T=4,C=64")


def environment(cache: pathlib.Path, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DLBLAS_")}
    return {
        **kept,
        "PYTHONPATH": str(ROOT / "build" / "python"),
        "DLBLAS_CACHE": str(cache),
        **more,
    }


class Cli:
    """``dlblas`` with its own store."""

    def __init__(self, cache: pathlib.Path) -> None:
        self.cache = cache

    def __call__(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dlblas", *words]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=900,
            cwd=self.cache.parent,
            env=environment(self.cache, **env),
        )

    def out(self, *words: str) -> str:
        done = self(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.out(*words, "--json"))


@pytest.fixture
def cli(tmp_path: pathlib.Path) -> Cli:
    return Cli(tmp_path / "store")


def test_version_and_help(cli: Cli) -> None:
    assert cli.out("--version") == f"dlblas {(ROOT / 'VERSION').read_text().strip()}\n"
    for command in ("info", "list", "explain", "tune", "cache", "demo", "bench", "test"):
        assert f"dlblas {command}" in cli.out(command, "--help")
    assert cli().returncode == 2


WRONG = [
    (
        ["--imprt", "x", "info"],
        "unrecognized arguments: --imprt; did you mean --import?; see dlblas",
    ),
    (
        ["--imprt=x", "info"],
        "unrecognized arguments: --imprt=x; did you mean --import?; see dlblas",
    ),
    (["--impor", "x", "info"], "unrecognized arguments: --impor; did you mean --import?"),
    (["-q", "info"], "dlblas: unrecognized arguments: -q; see dlblas --help"),
    (["tun"], "dlblas: tun is no command; did you mean tune?; expected one of info,"),
    (["explain", "rmsnorm", *SMALL], "operator is unknown; expected one of "),
    (["explain", "rmsnorm", *SMALL], "got rmsnorm; did you mean rms_norm?"),
    (
        ["explain", "rms_norm", "--dims", "T=4"],
        "rms_norm: --dims lacks C; expected T=…,C=…, got T=4;",
    ),
    (["explain", "rms_norm"], "rms_norm: --dims lacks T, C; expected T=…,C=…, got nothing;"),
    (
        ["explain", "rms_norm", "--dims", "T=4,D=2"],
        "--dims names no letter of the schema; expected T=…,C=…, got D;",
    ),
    (
        ["explain", "rope", "--dims", "T=128,H=32,Hkv=8,D=128,P=4096"],
        "got D; a dimension may be given too: 2Dh+Dn=… of q, 2Dh=… of cos_sin_cache",
    ),
    (
        ["explain", "rope", "--dims", "T=128,H=32,Hkv=8,2Dh+Dn=128,P=4096"],
        "rope: --dims lacks Dh, Dn; expected ",
    ),
    (
        ["explain", "rope", "--dims", "T=1,H=2,Hkv=1,2Dh+Dn=8,2Dh=7,P=4"],
        "rope: --dims 2Dh does not fit; expected a size with a whole Dh, got 7; ",
    ),
    (
        ["explain", "rope", "--dims", "T=1,H=2,Hkv=1,2Dh+Dn=8,2Dh=10,P=4"],
        "rope: --dims 2Dh+Dn does not fit; expected at least 10, with Dh=5, got 8; ",
    ),
    (
        ["explain", "rope", "--dims", "T=1,H=2,Hkv=1,Dh=4,Dn=0,2Dh=10,P=4"],
        "rope: --dims 2Dh does not fit; expected 8 from Dh=4, got 10; leave one out",
    ),
    (
        ["explain", "rms_norm", "--dims", "T=4,C=2x3"],
        "--dims C is no size; expected a size, got 2x3;",
    ),
    (
        ["explain", "rms_norm", "--dims", "T"],
        "--dims is malformed; expected name=value,…, got 'T';",
    ),
    (
        ["explain", "rms_norm", "--dims", "T=4,C=1,C=2"],
        "rms_norm: --dims C is given twice; expected it once, got C=1 and C=2; keep one",
    ),
    (
        ["explain", "rms_norm", *SMALL, "--arg", "eps=1", "--arg", "eps=2"],
        "rms_norm: --arg eps is given twice; expected it once, got eps=1 and eps=2; keep one",
    ),
    (
        ["explain", "rms_norm", *SMALL, "--dtype", "f32,bf16"],
        "rms_norm: --dtype is given twice; expected it once, got f32 and bf16; keep one",
    ),
    (
        ["explain", "rms_norm", *SMALL, "--dtype", "weight=f32,weight=f32"],
        "rms_norm: --dtype weight is given twice; expected it once, got weight=f32 and",
    ),
    (["explain", "rms_norm", *SMALL, "--dtype", "bf61"], "got bf61; did you mean bf16?"),
    (["explain", "rms_norm", *SMALL, "--dtype", "i8"], "rms_norm: x has dtype i8; expected "),
    (
        ["explain", "rms_norm", *SMALL, "--dtype", "f32,w=bf16"],
        "--dtype names no tensor; expected x, weight, got w;",
    ),
    (["explain", "rms_norm", *SMALL, "--arg", "epz=1"], "got epz; did you mean eps?"),
    (
        ["explain", "rms_norm", *SMALL, "--arg", "eps=x"],
        "rms_norm: eps is no number; expected float, got x;",
    ),
    (
        ["tune", "rms_norm", *SMALL, "--space", "task_kib=3"],
        "tune: space['task_kib'] asks for a value outside",
    ),
    (
        ["tune", "rms_norm", *SMALL, "--space", "task_kib"],
        "tune: --space is malformed; expected knob=value,value",
    ),
    (
        ["tune", "rms_norm", *SMALL, "--where", "f(1)"],
        "where: expression holds what is not allowed;",
    ),
    (["explain", "rms_norm", "--dims", f"T={10**19},C=1"], "rms_norm: --dims T is beyond 64 bits;"),
    (["explain", "rms_norm", "--dims", "T=1,C=" + "9" * 18], "rms_norm: x has too many elements;"),
    (["tune", "rms_norm", *SMALL, "--space", "task_kib=--5"], "asks for a value outside"),
    (["tune", "rms_norm", *SMALL, "--where", "task_kib % 0"], "where: expression has no value;"),
    (["tune", "rms_norm", *SMALL, "--where", "task_kib < 'a'"], "where: expression has no value;"),
    (["tune", "rms_norm", *SMALL, "--implementations", ""], "tune: implementations leaves none;"),
    (["tune", "rms_norm", *SMALL, "--seed", "-1"], "tune: seed is out of range; expected an"),
    (["tune", "rms_norm", *SMALL, "--max-evaluations", "0"], "tune: max_evaluations is out of "),
    (["tune", "rms_norm", *SMALL, "--seconds", "nan"], "--seconds: 'nan' is no budget; write 0.5"),
    (["bench", "host", "--seconds", "-1"], "--seconds: '-1' is no budget; write 0.5"),
    (["demo", "--seconds", "inf"], "--seconds: 'inf' is no budget; write 0.5"),
    (["tune", "rms_norm", *SMALL, "--strategy", "luck"], "strategy"),
    (["tune", "rms_norm", *SMALL, "--implementations", "none_such"], "none_such"),
    (["cache", "show", "zzz"], "cache: key is not in the store;"),
    (
        ["cache"],
        "dlblas cache: the following arguments are required: ACTION; see dlblas cache --help",
    ),
    (["bench", "hots"], "bench: section is unknown; expected host, "),
    (["bench", "host", "--threads", "0"], "'0' is no list of counts; write 1,2"),
]


IN_ONE_PROCESS = """
import contextlib, io, json, sys
from dlblas.cli import main
answers = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
    answers.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""


def test_wrong_usages_are_one_line_and_exit_code_2(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS], input=json.dumps([words for words, _ in WRONG]),
        capture_output=True, text=True, timeout=900, cwd=tmp_path,
        env=environment(tmp_path / "store"),
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == "", done.stderr
    for (words, text), answer in zip(WRONG, json.loads(done.stdout), strict=True):
        code, out, err = answer
        assert (code, out, err.count("\n")) == (2, "", 1) and text in err, (words, answer)


@pytest.mark.parametrize(("words", "text"), some(WRONG, 8, "wrong usage"))
def test_wrong_usage_is_one_line_and_exit_code_2(cli: Cli, words: list[str], text: str) -> None:
    done = cli(*words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert text in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_info_and_list(cli: Cli) -> None:
    info = cli.json("info")
    assert {op["name"] for op in info["operators"]} >= OPERATORS
    text = cli.out("info")
    rates = info["devices"][0]["rates"]
    assert 1e9 < rates["memory_bytes_per_s"] <= rates["cache_bytes_per_s"]
    assert rates["f32_flops"] > 1e9 and 0 < rates["launch_us"] < 100
    assert rates["measured"] == (", as measured here" in text)
    assert f"{rates['memory_bytes_per_s'] / 1e9:.3g} GB/s from memory" in text
    assert info["devices"][0]["model"] in text
    for variable in info["environment"]:
        assert variable["name"] in text
    for library in info["libraries"]:
        absent = "torch " if library["name"] == "torch" else library["why_not"]  # its own words
        assert (library["version"] if library["found"] else absent) in text
    listed = cli.out("list")
    for op in cli.json("list"):
        assert op["schema"] in listed
        assert all(
            re.search(rf"^  {impl['name']} ", listed, re.M) for impl in op["implementations"]
        )


def test_list_is_grouped_by_family_and_has_functions(cli: Cli) -> None:
    listed = cli.out("list")
    families = re.findall(r"^== (\w+) ==$", listed, re.M)
    assert len(families) == len({*families}) > 10
    parts = re.split(r"^== \w+ ==$", listed, flags=re.M)[1:]
    for family, part in zip(families, parts, strict=True):
        assert {*re.findall(r"^\w+ \((\w+)\): ", part, re.M)} == {family}
    for name, operator in (("group_norm", "group_norm_rows"), ("topk_gating", "topk_gating_slots")):
        assert re.search(
            rf"^{name} \(\w+\): .*\n  signature .*\n  made of +{operator}$", listed, re.M
        )
        assert cli.json("list", name)[0]["made_of"] == [operator]
    both = cli.out("list", "rope_tables", "softmax")
    assert "made of" in both and both.count("schema") == 1 and "==" not in both


def test_info_says_what_is_disabled_and_why(cli: Cli) -> None:
    done = cli("info", "--why", "matmul", DLBLAS_DISABLE="onednn")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ +onednn +no: .*DLBLAS_DISABLE", done.stdout, re.M), done.stdout


def test_explain_needs_no_numpy_and_allocates_nothing(cli: Cli, tmp_path: pathlib.Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "numpy.py").write_text("raise ImportError('hidden')\n")
    path = os.pathsep.join([str(tmp_path / "hidden"), str(ROOT / "build" / "python")])
    words = ("explain", "matmul", "--dims", "M=1000000,K=1000000,N=1000000")  # terabytes, if made
    done = cli(*words, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert "nothing is measured for this key yet" in done.stdout
    done = cli("demo", "--quick", PYTHONPATH=path)
    assert done.returncode == 2
    assert (
        done.stderr
        == "demo: NumPy is missing; expected an installed numpy, got none; pip install numpy\n"
    )


def test_explain_takes_dtypes_scalars_and_optional_tensors(cli: Cli) -> None:
    words = ["--dims", "M=2,K=8,N=8", "--dtype", "bf16,bias=f32", "--arg", "bias=true"]
    problem = cli.json("explain", "matmul", *words, "--arg", "activation=relu")["problem"]
    assert problem.startswith('[M=2 K=8 N=8] a bf16, b bf16, bias f32, out bf16; activation="relu"')
    assert cli.json("explain", "matmul_relu", *words)["problem"] == problem
    table = cli.out("explain", "rms_norm_", "--dims", "T=2x3,C=64")
    assert "[T=6 C=64]" in table or "[T=8 C=64]" in table  # its bucket's upper end
    assert sum(line.startswith("  >") for line in table.splitlines()) == 1


def test_tune_measures_logs_and_is_remembered(cli: Cli) -> None:
    words = ("rms_norm", *SMALL, "--dtype", "f32", "--arg", "eps=1e-5")
    done = cli(
        "tune", *words, "--seconds", "0.5", "--max-evaluations", "6", "--seed", "3", "--json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["source"] == "tuned" and report["seed"] == 3
    assert len(report["evaluated"]) == 6
    # No terminal: few lines, no control characters.
    log = done.stderr.splitlines()
    assert "\r" not in done.stderr and "\x1b" not in done.stderr
    assert len(log) == 2 and " done 6/" in log[1]
    assert all(line.startswith("rms_norm T=4,C=64") for line in log)
    explained = cli.json("explain", *words)
    assert explained["source"] == "store"
    assert explained["implementation"] == report["winner"]["implementation"]


def test_tune_narrows_and_reports(cli: Cli) -> None:
    text = cli.out(
        "tune",
        "rms_norm",
        *SMALL,
        "--implementations",
        "cpu_baseline",
        "--seconds",
        "0.3",
        "--space",
        "prefetch=next_row",
        "--where",
        "task_kib >= 64",
        "--strategy",
        "exhaustive",
    )
    row = re.search(r"cpu_baseline +\S+ µs +(\d+) of (\d+) measured", text)
    assert row and row[1] == row[2] == "4", text  # 2 store x 1 prefetch x 2 task_kib
    assert "exhaustive, " in text


def test_empty_results_need_no_tuning(cli: Cli) -> None:
    text = cli.out("tune", "rms_norm", "--dims", "T=0,C=64")
    assert "\n  empty results need no tuning: nothing measured\n" in text
    assert " of 0 s" not in text


def test_cases_are_tuned_one_by_one(cli: Cli) -> None:
    reports = cli.json(
        "tune",
        "rms_norm",
        "--cases",
        "bench",
        "--dtype",
        "f32",
        "--seconds",
        "0.05",
        "--max-evaluations",
        "1",
        "--implementations",
        "cpu_baseline",
    )
    assert len(reports) >= 4
    assert len({report["problem"] for report in reports}) == len(reports)


def test_cache_commands(cli: Cli) -> None:
    assert cli.json("cache", "ls") == []
    assert cli.out("cache", "ls") == "the store is empty\n"
    tune = ("tune", "rms_norm", *SMALL, "--seconds", "0.1", "--implementations", "cpu_baseline")
    cli.out(*tune, "--max-evaluations", "2")
    folder = cli.out("cache", "path").strip()
    assert folder == cli.json("cache", "path")["path"]
    (key,) = cli.json("cache", "ls")
    assert cli.out("cache", "ls").startswith(f"{key['hash'][:12]}  rms_norm  T=4 C=64 ")
    shown = cli.json("cache", "show", key["hash"][:8])
    assert len(shown["candidates"]) == key["rows"] == 2
    assert cli.out("cache", "show", key["hash"][:8]).count(" samples ") == 2
    assert cli.json("cache", "verify") | {"good": 1, "bad": 0} == cli.json("cache", "verify")
    (record,) = (
        p for p in pathlib.Path(folder).rglob("*") if p.is_file() and key["hash"] in str(p)
    )
    record.write_bytes(record.read_bytes()[:-20])
    done = cli("cache", "verify")
    assert (done.returncode, done.stdout) == (1, "0 good, 1 bad (set aside)\n")
    cli.out(*tune, "--max-evaluations", "2")
    assert re.fullmatch(r"[12] removed\n", cli.out("cache", "clear", "--yes"))
    assert cli.json("cache", "ls") == []


def test_no_folder_for_the_store_is_said(cli: Cli, tmp_path: pathlib.Path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")
    done = cli("cache", "path", DLBLAS_CACHE=str(blocked))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "dlblas cache: the store is in memory only: " in done.stderr


def test_test_replays_a_case(cli: Cli) -> None:
    listed = cli.out(
        "test", "--list", "--op", "rms_norm", "--impl", "cpu_baseline", "--dtype", "f32"
    )
    repro = listed.splitlines()[0]
    assert repro.startswith("python -m dlblas test --op rms_norm --impl cpu_baseline ")
    done = cli(*shlex.split(repro)[3:])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 run, 0 failed" in done.stdout
    assert cli("test", "--case", "no_such_case").returncode == 2


def test_a_reader_that_leaves_is_no_error(cli: Cli) -> None:
    command = f"{shlex.quote(sys.executable)} -m dlblas list | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        env=environment(cli.cache),
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")


SEARCH = ("tune", "matmul", "--dims", "M=64,K=512,N=512")


def test_progress_on_a_terminal_is_one_line(cli: Cli) -> None:
    ours, theirs = pty.openpty()
    # On a loaded machine, drawing the inputs and checking them can alone take most of a second.
    command = [sys.executable, "-m", "dlblas", *SEARCH, "--seconds", "3"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment(cli.cache)
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.stdout is not None
    report = process.stdout.read().decode()
    process.stdout.close()
    assert process.wait(timeout=240) == 0
    text = shown.decode()
    assert "\n" not in text
    assert re.search(
        r"\r\x1b\[Kmatmul \S+ \d+/\d+, [\d.]+/3 s, ETA [\d.]+ s, best \S+ [mµ]s \w+ ", text
    ), text
    assert text.endswith("\r\x1b[K")  # nothing of it stays
    assert "  > " in report


def test_ctrl_c_keeps_what_was_measured(cli: Cli) -> None:
    command = [sys.executable, "-m", "dlblas", *SEARCH, "--seconds", "60"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(cli.cache, DLBLAS_LOG="search"),
        # A shell starts background jobs with SIGINT ignored, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if ",measured," in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-1] == "dlblas: interrupted"
    (key,) = cli.json("cache", "ls")
    assert key["key"]["op"] == "matmul" and key["rows"] >= 1


def test_the_examples_of_the_page_run(cli: Cli) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    examples = re.findall(r"^\$ dlblas (.*)$", page, re.M)
    assert len(examples) >= 5
    for example in examples:
        cli.out(*shlex.split(example))
