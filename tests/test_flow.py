"""tools/check_flow.py sees a hop that is skipped, a detour through an unnamed file, and growth."""

from __future__ import annotations

import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import check_flow  # noqa: E402


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for folder in ("src", "bindings", "ops", "cpu", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def edit(tree: pathlib.Path, name: str, old: str, new: str) -> None:
    text = (tree / name).read_text()
    assert old in text
    (tree / name).write_text(text.replace(old, new))


def test_the_page_holds(tree: pathlib.Path) -> None:
    assert check_flow.check(tree) == []


def test_skipped_hop(tree: pathlib.Path) -> None:
    edit(tree, "src/dispatch/launch.cpp", "run_steps(kernel, args, context, workspace))", "0)")
    assert any("launch does not call run_steps" in p for p in check_flow.check(tree))


def test_renamed_function(tree: pathlib.Path) -> None:
    edit(tree, "src/dispatch/compile.cpp", "const Kernel& compile(", "const Kernel& make_kernel(")
    assert any("does not define compile" in p for p in check_flow.check(tree))


def test_detour_through_an_unnamed_file(tree: pathlib.Path) -> None:
    edit(
        tree,
        "src/dispatch/compile.cpp",
        "return kernel ?",
        "print_table(explain()); return kernel ?",
    )
    problems = check_flow.check(tree)
    assert any("compile reaches print_table in src/dispatch/explain.cpp" in p for p in problems)


def test_detour_through_a_class(tree: pathlib.Path) -> None:
    (tree / "src/dispatch/detour.cpp").write_text(
        "namespace dlblas {\nDetour::Detour(int n) {\n  n_ = n;\n}\n"
        "int Detour::take_detour() const {\n  return n_;\n}\n}\n"
    )
    edit(
        tree,
        "src/dispatch/launch.cpp",
        "void* workspace = nullptr;",
        "Detour d(1); d.take_detour();",
    )
    problems = check_flow.check(tree)
    assert any("launch reaches Detour in src/dispatch/detour.cpp" in p for p in problems)
    assert any("launch reaches take_detour in src/dispatch/detour.cpp" in p for p in problems)


def test_growth(tree: pathlib.Path) -> None:
    with (tree / "src/dispatch/compile.cpp").open("a") as file:
        file.write("\n" * 200)
    assert any("at most 8 and 1000" in p for p in check_flow.check(tree))
