"""What a new user meets first: misspelt names, removing stored results, how `make demo` builds, and
the length of the front page."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import subprocess
import sys

import dlblas
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def command(cache: pathlib.Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DLBLAS_")}
    env = {**kept, "PYTHONPATH": str(ROOT / "build" / "python"), "DLBLAS_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-m", "dlblas", *words],
        env=env, capture_output=True, text=True, timeout=480, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_a_name_that_is_nearly_one_is_answered_with_it() -> None:
    with pytest.raises(ImportError, match=r"cannot import name 'rmsnorm'.*did you mean rms_norm\?"):
        from dlblas import rmsnorm  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'zzzz'") as caught:
        from dlblas import zzzz  # noqa: F401
    assert "did you mean" not in str(caught.value)
    assert not hasattr(dlblas, "rmsnorm")
    with pytest.raises(dlblas.errors.UnknownOperatorError, match=r"did you mean rms_norm\?") as e:
        dlblas.get_op("rmsnorm", ())
    assert e.value.got == "rmsnorm"
    from dlblas import utils  # a submodule that nothing has imported is no unknown name

    assert utils.__name__ == "dlblas.utils"


def test_a_class_of_nn_and_capitals_are_found() -> None:
    for name, meant in (
        ("RMSNorm", "nn.RMSNorm"),
        ("Linear", "nn.Linear"),
        ("Silu_And_Mul", "nn.SiluAndMul"),
        ("RmsNorm_", "rms_norm_"),
    ):
        with pytest.raises(AttributeError, match=rf"'{name}'; did you mean {meant}\?$"):
            getattr(dlblas, name)
    with pytest.raises(ImportError, match=r"did you mean nn\.RMSNorm\?$"):
        from dlblas import RMSNorm  # noqa: F401
    with pytest.raises(AttributeError, match=r"did you mean RMSNorm\?$"):
        _ = dlblas.nn.Rmsnorm
    with pytest.raises(dlblas.errors.UnknownOperatorError, match=r"did you mean rms_norm\?$"):
        dlblas.get_op("RMSNorm", ())


def test_a_function_for_its_name_and_a_tuple_for_arguments() -> None:
    x = dlblas.Spec((4, 64), "f32")
    for call in (dlblas.explain, dlblas.warmup, dlblas.get_op, dlblas.tune, dlblas.reference):
        with pytest.raises(dlblas.errors.ArgumentTypeError) as caught:
            call(dlblas.rms_norm, (x, x)) if call is not dlblas.warmup else call("rms_norm", (x,))
        said = str(caught.value)
        assert 'write "rms_norm"' in said or 'dlblas.warmup("rms_norm", *args)' in said
    with pytest.raises(dlblas.errors.ArgumentTypeError, match="one by one, got a tuple of 2"):
        dlblas.explain("rms_norm", (x, x))


def test_what_a_command_does_not_take(tmp_path: pathlib.Path) -> None:
    """The message names the command's own help and suggests only options that the command has."""
    for words, about, wrong in (
        (("list", "--jsn"), "dlblas list", "--jsn; did you mean --json?"),
        (("compile", "--arch", "sm_90a", "--device", "cpu"), "dlblas compile", "--device"),
        (("explain", "rms_norm", "T=2"), "dlblas explain", "T=2; did you mean --dims T=2?"),
        (("cache", "ls", "more"), "dlblas cache ls", "more"),
        (("--frob",), "dlblas", "--frob"),
    ):
        said = f"{about}: unrecognized arguments: {wrong}; see {about} --help\n"
        assert command(tmp_path, *words, code=2).stderr == said
    said = command(tmp_path, "version", code=2).stderr
    assert said.startswith(
        "dlblas: version is no command; did you mean --version?; expected one of"
    )


def test_help_is_a_command_and_list_takes_operators(tmp_path: pathlib.Path) -> None:
    assert command(tmp_path, "help").stdout == command(tmp_path, "--help").stdout
    assert command(tmp_path, "help", "list").stdout == command(tmp_path, "list", "-h").stdout
    said = command(tmp_path, "list", "silu", "rms_norm_").stdout
    assert re.findall(r"^(\w+) \(", said, re.MULTILINE) == ["silu", "rms_norm"]
    (one,) = json.loads(command(tmp_path, "list", "silu", "--json").stdout)
    assert one["name"] == "silu"
    assert "did you mean silu?" in command(tmp_path, "list", "sillu", code=2).stderr


TUNE = ("--seconds", "5", "--max-evaluations", "1")


@pytest.fixture
def kept(tmp_path: pathlib.Path) -> pathlib.Path:
    """A store with two keys of one operator and one of another."""
    for op, dims in (("rms_norm", "T=2,C=64"), ("rms_norm", "T=4,C=64"), ("softmax", "T=2,C=64")):
        command(tmp_path, "tune", op, "--dims", dims, *TUNE)
    return tmp_path


def listed(cache: pathlib.Path) -> list[str]:
    return sorted(
        k["key"]["op"] for k in json.loads(command(cache, "cache", "ls", "--json").stdout)
    )


def test_one_key_or_one_operator_is_removed(kept: pathlib.Path) -> None:
    keys = json.loads(command(kept, "cache", "ls", "--json").stdout)
    one = next(k["hash"] for k in keys if k["key"]["op"] == "rms_norm")
    assert command(kept, "cache", "rm", one[:16]).stdout == "1 key, 1 record removed\n"
    assert listed(kept) == ["rms_norm", "softmax"]
    assert command(kept, "cache", "rm", "--op", "rms_norm").stdout == "1 key, 1 record removed\n"
    assert listed(kept) == ["softmax"]
    assert "is not in the store" in command(kept, "cache", "rm", one, code=2).stderr
    for words in ((), (one, "--op", "softmax")):
        said = command(kept, "cache", "rm", *words, code=2).stderr
        assert "expected either a key or an operator" in said
    assert "softmx" in command(kept, "cache", "rm", "--op", "softmx", code=2).stderr
    assert dlblas.cache.rm.__doc__
    assert listed(kept) == ["softmax"]


def on_a_terminal(cache: pathlib.Path, answer: str) -> tuple[int, str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "build" / "python"), "DLBLAS_CACHE": str(cache)}
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "dlblas", "cache", "clear"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=env,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while b"[y/N]" not in said:
        said += os.read(ours, 1000)
    os.write(ours, answer.encode() + b"\n")
    try:
        while more := os.read(ours, 1000):
            said += more
    except OSError:  # closed
        pass
    os.close(ours)
    return child.wait(timeout=240), said.decode()


def test_clear_asks_a_person_and_wants_a_word_of_a_script(kept: pathlib.Path) -> None:
    said = command(kept, "cache", "clear", code=2).stderr
    assert said.startswith("cache: clear would remove everything; expected --yes")
    code, said = on_a_terminal(kept, "n")
    assert code == 1 and "clear 3 keys" in said and "nothing removed" in said
    assert len(listed(kept)) == 3
    code, said = on_a_terminal(kept, "y")
    assert code == 0 and re.search(r"\d+ removed", said)
    assert listed(kept) == []
    assert command(kept, "cache", "clear", "--yes").stdout == "0 removed\n"


def test_times_of_a_record_are_in_one_unit(kept: pathlib.Path) -> None:
    key = json.loads(command(kept, "cache", "ls", "--json").stdout)[0]["hash"]
    shown = command(kept, "cache", "show", key).stdout
    assert re.search(r"\d µs ", shown) and not re.search(r"\d ms", shown)


def test_a_report_and_an_explanation_count_in_one_unit(tmp_path: pathlib.Path) -> None:
    """A candidate that missed the final shows how many samples its time rests on; one measured in
    full shows none."""
    program = """
import numpy as np, dlblas, json
a, b = (np.ones((192, 192), "f") for _ in range(2))
print(dlblas.tune("matmul", (a, b), seconds=3, max_evaluations=24, worker=False, progress=False))
e = dlblas.explain("matmul", a, b)
print(e)
print(json.dumps(e.as_dict()["candidates"]))
"""
    path = str(ROOT / "build" / "python")
    env = {**os.environ, "DLBLAS_CACHE": str(tmp_path), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    text = "\n".join(said)
    assert re.search(r"\d µs", text) and not re.search(r"\d ms", text), text
    rows = [row for row in json.loads(last) if "measured_ms" in row]
    assert rows and all(row["samples"] >= 1 for row in rows)
    for row in rows:
        few = row["samples"] < 5
        marked = rf"{row['implementation']} .*~[\d.]+ µs, {row['samples']} sample"
        assert bool(re.search(marked, text)) == few, text
    assert any(row["samples"] >= 5 for row in rows)  # a final


def test_make_demo_builds_only_what_it_needs_and_says_how_long() -> None:
    for built in ("release", "demo"):  # where build/ has the library, and where it has none
        told = subprocess.run(
            ["make", "-n", "demo", f"DEMO={built}"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert re.search(r"minutes on 2 cores", told)
        assert re.findall(r"cmake --build .*", told) == [
            f"cmake --build --preset {built} --target python_stage"
        ]
        package = "build/python" if built == "release" else "build/demo/python"
        assert f"PYTHONPATH={package} .venv/bin/python -m dlblas demo" in told
    steps = ["ninja", "-C", "build", "-t", "commands", "python_stage"]
    done = subprocess.run(steps, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "dlblas_objects.dir" in done.stdout
    assert not re.search(r"test_\w+\.dir|replay_\w+\.dir|store_battery\.dir", done.stdout)


def test_the_demo_is_built_with_the_operators_that_it_calls(tmp_path: pathlib.Path) -> None:
    presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
    (preset,) = (p for p in presets["configurePresets"] if p["name"] == "demo")
    asked = json.dumps({"quick": True, "result": str(tmp_path / "made.json")})
    env = {"PYTHONPATH": str(ROOT / "build" / "python"), "DLBLAS_LOG": "call"}
    done = subprocess.run(
        [sys.executable, "-m", "dlblas._demo_llama"],
        env={**os.environ, **env}, input=asked, capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    called = set(re.findall(r"dlblas,call,(\w+),", done.stderr))
    tuned = {"matmul", "rms_norm", "add_rms_norm"}
    assert called | tuned == set(preset["cacheVariables"]["DLBLAS_OPERATORS"].split(";"))


def test_the_front_page_fits_and_says_how_to_install() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 130
    fenced, wide = False, []
    for line in lines:
        fenced ^= line.startswith("```")
        wide += [line] if fenced and len(line) > 88 else []
    assert wide == []
    text = "\n".join(lines)
    assert text.index("## Install") < text.index("## Ten lines")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (name,) = re.findall(r'^name = "([^"]+)"', project, re.MULTILINE)
    assert f"`{name}`" in text and "sm_80" in text and name != "dlblas"
