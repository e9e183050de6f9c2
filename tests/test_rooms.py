"""What tests and the package must know of operators is in the operators' folders, under keys that
are read, and about operators that are there; shared Python names no operator. Read next: rooms.py.
"""

from __future__ import annotations

import ast
import importlib
import pathlib
import subprocess

import dlblas
import pytest
from dlblas.harness import load_registry
from rooms import ROOT, Facts, facts_of, files_of, read

REGISTRY = load_registry()


@pytest.mark.parametrize("path", files_of(ROOT), ids=lambda p: str(p.parent.relative_to(ROOT)))
def test_each_is_about_operators_of_its_folder(path: pathlib.Path) -> None:
    family, *room = path.parent.relative_to(ROOT / "ops").parts
    for op, facts in read(path).items():
        assert REGISTRY.operators[op]["family"] == family and room in ([], [op])
        assert facts_of(op) == facts != Facts()


def test_the_table_is_of_letters_that_are_there() -> None:
    letters = {op: {row["name"] for row in o["letters"]} for op, o in REGISTRY.operators.items()}
    shown = {op: facts_of(op).table for op in letters}
    assert any(shown.values()) and all({*shown[op]} <= letters[op] for op in letters)


def test_an_unknown_key_is_named_with_its_file_and_the_known_ones(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tests.py"
    path.write_text('TESTS = {"softmax": {"hide": {"f32": 4}}}\n')
    with pytest.raises(LookupError) as refused:
        read(path)
    words = str(refused.value)
    assert words.startswith(f"{path}: softmax: unknown hide; expected one of hidden, ")
    assert all(key in words for key in Facts._fields)


# What <op>.py may say; capitals that it uses itself begin with an underscore or are in no table.
SAID = {"ARGUMENTS", "AUTOGRAD", "DOCS", "HINTS", "LETTERS", "OVERVIEW", "OVER_DIM", "TOKENS"}


@pytest.mark.parametrize("op", sorted(REGISTRY.operators))
def test_what_an_operator_says_of_its_calls(op: str) -> None:
    said = vars(importlib.import_module(f"dlblas.ops.{op}"))
    assert {name for name in said if name.isupper()} <= SAID
    row = REGISTRY.operators[op]
    first, *_ = [t for t in row["tensors"] if not t["written"]]
    if letter := said.get("TOKENS"):
        assert any(t["dims"] and t["dims"][0]["text"] == letter for t in row["tensors"])
    if letter := said.get("OVER_DIM"):
        assert first["dims"][-1]["text"] == letter and first["name"] == "x"


# Shared Python that is about certain operators: what the demo runs, and what serves of
# transformers' and vLLM's modules.
ABOUT_SOME = {
    "_demo_gpu.py", "_demo_host.py", "_demo_llama.py", "_demo_rival.py", "demo.py", "hf.py",
    "vllm.py",
}  # fmt: skip


def named_in(text: str, names: set[str]) -> set[str]:
    """The operators that a module's code names: as whole strings, or as names of arguments."""
    nodes = [*ast.walk(ast.parse(text))]
    words = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return names & (words | {n.arg for n in nodes if isinstance(n, ast.keyword) and n.arg})


def test_shared_python_names_no_operator() -> None:
    """An operator of the same kind as another needs no edit of a shared file."""
    names = {form["name"] for row in dlblas.info()["operators"] for form in row["forms"]}
    package = ROOT / "python" / "dlblas"
    files = [*package.glob("*.py"), *package.glob("*.pyi"), *(package / "torch").glob("*.py")]
    found = {path.name: named_in(path.read_text("utf-8"), names) for path in files}
    found = {name: ops for name, ops in found.items() if ops}
    assert {*found} == ABOUT_SOME, found
    assert named_in("TABLE = {'rope': 1}\nf(softmax=2)", names) == {"rope", "softmax"}


def test_two_files_of_one_staged_name_stop_the_build(tmp_path: pathlib.Path) -> None:
    """A family's own file and its operator's would both be ``ops/halve.py`` of the package."""
    room = tmp_path / "tree" / "ops" / "halve" / "halve"
    room.mkdir(parents=True)
    (room.parent / "halve.py").touch()

    def stage() -> subprocess.CompletedProcess[str]:
        script = ROOT / "cmake" / "stage_python.cmake"
        values = {"TREE": tmp_path / "tree", "OUTPUT": tmp_path / "out", "SONAME": "libdlblas.so"}
        given = [f"-D{name}={value}" for name, value in values.items()]
        given += [f"-D{name}={tmp_path / name}" for name in ("GENERATED", "LIBRARY", "WORKER")]
        return subprocess.run(
            ["cmake", *given, "-P", str(script)], capture_output=True, text=True, timeout=240
        )

    assert stage().returncode == 0
    assert (tmp_path / "out" / "ops" / "halve.py").is_symlink()
    (room / "halve.py").touch()
    refused = stage()
    assert refused.returncode != 0
    said = " ".join(refused.stderr.split())
    assert "ops/halve.py twice" in said and str(room / "halve.py") in said
