"""A user's function that is wrong in one element, or one tile, at a size where the oracle can only
afford some rows: comparison with another implementation's result reveals it, here and in a worker.

Read next: own_nearly_module.py, src/tuner/kept_results.hpp, docs/reliability.md.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import dlblas
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


@pytest.fixture(scope="module")
def nearly() -> Iterator[Any]:
    """Imports the module that registers them; an import at the top would show them to other
    tests."""
    import own_nearly_module

    yield own_nearly_module
    for name in [*own_nearly_module.WRONG, "right"]:
        dlblas.unregister("matmul", name)


def operands(size: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(0).standard_normal
    return draw((size, size), np.float32), draw((size, size), np.float32)


@pytest.mark.parametrize("worker", [True, False], ids=["in a worker", "here"])
def test_wrong_values_between_the_chosen_rows_do_not_win(
    worker: bool, nearly: Any, attacked: Callable[..., None]
) -> None:
    names, wrong = [*nearly.WRONG, "right"], nearly.WRONG
    report = dlblas.tune(
        "matmul",
        operands(nearly.SIZE),
        seconds=60,
        implementations=names,
        force=True,
        worker=worker,
    )
    rows = {row["implementation"]: row for row in report["evaluated"]}
    broke = [name for name in wrong if rows[name].get("failure") != "wrong_result"]
    notes = [rows[name].get("note", "") for name in wrong]
    assert any("wrong where another implementation disagrees" in note for note in notes), rows
    assert "failure" not in rows["right"], rows["right"]
    assert report["winner"]["implementation"] not in wrong
    attacked("a result that is wrong where the oracle does not look", len(wrong), len(broke))
