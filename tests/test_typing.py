"""A user's program under type checkers: every public name exists; options and reports have types.

mypy and pyright (its fork basedpyright, which bundles node), both in strict mode, check the built
package with its stub. Read next: tools/generate/python.hpp.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pathlib
import shutil
import subprocess
import sys

import dlblas
import pytest

PACKAGE = pathlib.Path(dlblas.__file__).parent.parent
GOOD = '''"""A user's program."""

from typing import Any

import dlblas
from dlblas import nn, own, spaces


def norm(x: Any, weight: Any, y: Any, eps: float) -> None: ...


def calls(x: Any, w: Any) -> None:
    y = dlblas.rms_norm(x, w, eps=1e-5, stream=0)
    dlblas.rms_norm_(x, w, stream=0)
    alone: Any = dlblas.add_rms_norm(x, w)
    normed, total = dlblas.add_rms_norm(alone, w, x, 1e-6)
    print(normed, total, dlblas.softmax(x, 1), dlblas.l2_norm(x, dim=0))
    dlblas.apply_rotary_pos_emb(x, x, y, y, x, x)
    dlblas.rope(x, x, y, w, rotary_dim=64)
    op = dlblas.get_op("rms_norm", (x, w), seconds=1.0, progress=False, log="x.csv")
    winner = op.report.winner
    if winner is not None:
        print(winner["implementation"], op.report.elapsed_s, op(x, w), y)
    report = dlblas.tune("rms_norm", (x, w), effort="quick", space={"a": spaces.FixedSpace(1)})
    print(report.candidates[0]["takes_part"], report["why"], repr(report))
    told = dlblas.explain("rms_norm", x, w).as_dict()
    print(told["op"], told["candidates"][0]["supports"])
    dlblas.warmup("rms_norm", x, w)
    dlblas.utils.get_op("rms_norm", (x, w))
    with dlblas.pinned("rms_norm", "reference"), dlblas.deterministic():
        pass


@dlblas.register("rms_norm", "mine", space={"block": [1, 2]})
def mine(x: Any, weight: Any, y: Any, eps: float, block: int) -> None: ...


dlblas.register("rms_norm", "two", norm)(1, 2, 3, 0.5)
mine(1, 2, 3, 0.5, block=4)
own.cases("rms_norm")
print(nn.RMSNorm, dlblas.triton_ops, dlblas.kernels, dlblas.nn, dlblas.own, dlblas.spaces)
'''
WRONG = [
    'dlblas.tune("rms_norm", (), secondz=1)',
    'dlblas.get_op("rms_norm", (), effort="lots")',
    "dlblas.autotune(secnds=1)",
    'dlblas.tune("rms_norm", ()).winer',
    'dlblas.tune("rms_norm", ()).elapsed_s + "s"',
    '@dlblas.register("rms_norm", "x")\ndef f(x: int) -> int: return x\nf("y")',
    'dlblas.register("rms_norm", "x", print, dvices="cpu")',
    "dlblas.rms_norm()",
    "dlblas.rms_nrom(1, 2)",
]


def every_name() -> str:
    names = [n for n in dlblas.__all__ if n in vars(dlblas) or n in dir(dlblas)]
    return "".join(f"print(dlblas.{name})\n" for name in names if name.isidentifier())


SUBMODULES = [
    "cache", "errors", "hf", "layers", "nn", "own", "spaces", "triton_ops", "utils", "vllm",
    *(f"triton_ops.{name}" for name in (
        "api", "autotuner", "benchmark", "exceptions", "kernels", "models", "modules", "validation",
    )),
]  # fmt: skip


def every_submodule() -> str:
    """What they offer in ``__all__``; for a module of kernels, what it defines."""
    pytest.importorskip("torch")
    text = ""
    kernels = [f"kernels.{name}" for name in dir(importlib.import_module("dlblas.kernels"))]
    for short in SUBMODULES + kernels:
        name = f"dlblas.{short}"
        module = importlib.import_module(name)
        defined = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == name]
        text += f"import {name}\nprint({name})\n"
        for offered in getattr(module, "__all__", defined):
            if not offered.startswith("_"):
                text += f"print({name}.{offered})\n"
    return text


def mypy(file: pathlib.Path) -> str:
    pytest.importorskip("mypy")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--no-site-packages",
    ]
    command += ["--config-file=", f"--cache-dir={file.parent / 'cache'}", "--no-error-summary"]
    done = subprocess.run(
        [*command, str(file)], cwd=file.parent, env={"MYPYPATH": str(PACKAGE), "PATH": ""},
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return done.stdout


def pyright(file: pathlib.Path) -> str:
    beside = pathlib.Path(sys.executable).parent / "basedpyright"
    command = str(beside) if beside.exists() else shutil.which("basedpyright")
    if command is None:
        pytest.skip("no basedpyright here: python -m pip install basedpyright")
    settings = file.parent / "pyrightconfig.json"
    settings.write_text(
        json.dumps(
            {"include": [file.name], "extraPaths": [str(PACKAGE)], "typeCheckingMode": "strict"}
        )
    )
    done = subprocess.run(
        [command, "--outputjson", "-p", str(settings), "--pythonpath", sys.executable],
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    found = json.loads(done.stdout)["generalDiagnostics"]
    said = [(d["range"]["start"]["line"] + 1, d["message"].splitlines()[0]) for d in found]
    return "".join(f"{line}: {words}\n" for line, words in said)


@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_users_program_is_free_of_complaints(check, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(GOOD + every_name())
    assert check(file) == ""


@pytest.mark.parametrize("check", [mypy, pyright])
def test_every_name_of_every_submodule_is_known(check, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "program.py"
    text = every_submodule()
    assert text.count("print(") > 100 and "dlblas.kernels.ffn.call" in text
    file.write_text(text)
    assert check(file) == ""


@pytest.mark.parametrize("check", [mypy, pyright])
def test_mistakes_are_found(check, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "program.py"
    lines = {}
    text = "import dlblas\n"
    for wrong in WRONG:
        text += wrong + "\n"
        lines[wrong] = len(text.splitlines())
    file.write_text(text)
    found = check(file).splitlines()
    told = {int(line.removeprefix(f"{file.name}:").split(":")[0]) for line in found}
    missed = [wrong for wrong, at in lines.items() if at not in told]
    assert not missed, (missed, found)


def test_options_are_named_for_completion() -> None:
    for function in (dlblas.get_op, dlblas.tune):
        named = inspect.signature(function).parameters
        wanted = {"seconds", "effort", "strategy", "seed", "max_evaluations", "force", "space"}
        assert wanted | {"implementations", "where", "progress", "worker", "log"} <= set(named)
        assert not any(p.kind is p.VAR_KEYWORD for p in named.values())


def test_written_stubs_have_every_argument_of_their_operators() -> None:
    """ops/<family>/calls.pyi replace what the build would generate from the schemas."""
    files = sorted((pathlib.Path(__file__).resolve().parents[1] / "ops").glob("*/calls.pyi"))
    assert files
    for node in (node for file in files for node in ast.parse(file.read_text()).body):
        if isinstance(node, ast.FunctionDef):
            names = {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}
            runs = inspect.signature(getattr(dlblas, node.name)).parameters
            assert runs.keys() <= names, node.name
