"""What tests must know of operators is in their folders, under keys that a test reads, and about
operators that are there. Read next: rooms.py.
"""

from __future__ import annotations

import pathlib

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
