"""What benchmarks compare operators with, the formulas in torch of their rooms' peers.py, computes
what they do: on a CPU, on the smallest problem of each.

Read next: ../python/dlblas/bench/gpu_rows.py.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
from dlblas.bench.gpu_contest import wrong_by  # noqa: E402
from dlblas.bench.gpu_rows import _reference  # noqa: E402
from dlblas.bench.problems import (  # noqa: E402
    as_list,
    bytes_of,
    formula_of,
    make_tensor,
    problems_of,
    run,
)

ROWS = {row["name"]: row for row in dlblas.info()["operators"]}
MOST_ELEMENTS = 1 << 23


@pytest.mark.parametrize("op", [op for op, row in ROWS.items() if formula_of(row)])
def test_formulas_compute_what_operators_do(op: str) -> None:
    formula = formula_of(ROWS[op])
    problem = min(problems_of(ROWS[op], "bf16"), key=lambda p: p.elements())
    if problem.elements() > MOST_ELEMENTS:
        pytest.skip(f"{problem.elements()} elements")
    torch.manual_seed(3)
    given = {name: make_tensor(problem, name, 1, "cpu")[0].clone() for name in problem.specs}
    before = {name: tensor.clone() for name, tensor in given.items()}
    made = as_list(run(problem, given))
    assert bytes_of(problem, made) > 0
    made = made or [given[name] for name in given if problem.facts(name)["written"]]
    wanted = _reference(problem, formula, before)
    assert wanted or not made[0].is_floating_point()  # ids: of equals either is right
    for ours, theirs in zip(made, wanted, strict=False):
        assert wrong_by(ours, theirs) <= 1
