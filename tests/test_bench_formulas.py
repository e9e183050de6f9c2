"""The torch formulas of peers.py that benchmarks compare operators with compute what the operators
do: on a CPU, on the smallest problem of each operator for every choice of scalars.

Read next: ../python/dlblas/bench/gpu_rows.py.
"""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
from dlblas import bench  # noqa: E402
from dlblas.bench import cpu_families  # noqa: E402
from dlblas.bench.gpu_contest import wrong_by  # noqa: E402
from dlblas.bench.gpu_rows import _reference  # noqa: E402
from dlblas.bench.problems import (  # noqa: E402
    Problem,
    aligned,
    aligned_empty,
    as_list,
    bytes_of,
    formula_of,
    make_tensor,
    problems_of,
    run,
    sections_of,
)

ROWS = {row["name"]: row for row in dlblas.info()["operators"]}
MAX_ELEMENTS = 1 << 23


def smallest(row: Any) -> list[Problem]:
    """The smallest problem for each choice of scalars that are not sizes, for example an
    activation."""
    sizes = {p["name"] for p in row["forms"][0]["params"] if p["kind"] == "int"}
    found: dict[str, Problem] = {}
    for problem in problems_of(row, "bf16"):
        choice = json.dumps({n: v for n, v in problem.scalars.items() if n not in sizes})
        if choice not in found or problem.elements() < found[choice].elements():
            found[choice] = problem
    return list(found.values())


PROBLEMS = [p for row in ROWS.values() if formula_of(row) for p in smallest(row)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.op}-{p.case['name']}")
def test_formulas_compute_what_operators_do(problem: Problem) -> None:
    formula = formula_of(problem.row)
    assert formula is not None
    if problem.elements() > MAX_ELEMENTS:
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


def test_an_operators_own_sections_are_there() -> None:
    named = {section for row in ROWS.values() for section in sections_of(row)}
    assert named and named <= {*bench.GPU_SECTIONS}


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0, 4), (5, 7)])
def test_each_set_begins_where_an_allocation_may(shape: tuple[int, ...]) -> None:
    made = aligned_empty(4, shape, torch.int32, "cpu")
    assert made.shape == (4, *shape) and made[1].is_contiguous()
    assert {(made[i].data_ptr() - made.data_ptr()) % 256 for i in range(4)} == {0}
    values = torch.randn((4, *shape))
    assert torch.equal(aligned(values), values)
    table = torch.randn((1, *shape)).expand(4, *shape)
    assert aligned(table) is table


def test_a_rival_that_refuses_is_missing_for_its_own_reason() -> None:
    """Not for the first line of the message, which says that some call has no implementation."""
    name, codes = "cpu_i16_avx2", np.ones((16, 16), ml_dtypes.float8_e4m3fn)
    rows = ROWS["scaled_mm_channel"]["implementations"]
    if name not in {row["name"] for row in rows}:
        pytest.skip("not an x86 CPU")
    scales = np.ones((16, 1), np.float32), np.ones(16, np.float32)
    with dlblas.pinned("scaled_mm_channel", name), pytest.raises(dlblas.Error) as refused:
        dlblas.scaled_mm_channel(codes, codes, *scales)
    reasons = ("a is f8e4m3: the integer unit multiplies i8", "needs AVX2, FMA and F16C, ")
    assert cpu_families._reason(refused.value).startswith(reasons)
    assert cpu_families._reason(RuntimeError("first\nsecond")) == "RuntimeError: first"
