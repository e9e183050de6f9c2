"""Every operator × implementation × dtype against the oracle: one harness group per test item.

A sample of the cases, drawn with a printed seed, or all of them (DLBLAS_TEST_DEPTH=full). A failing
item lists each failing case with the line that repeats it. Read next:
python/dlblas/harness/groups.py, run.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from depth import depth_of
from dlblas.harness import Coverage, load_registry, run_group
from dlblas.harness.groups import PROPERTY, Group, absent, groups

SEED = 7  # of values and configurations; the run's seed draws cases
DEPTH = depth_of()
REGISTRY = load_registry()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A GPU's groups are also marked `gpu`. Without a GPU they are counted but create no items."""
    if "group" in metafunc.fixturenames:
        every_gpu_case = metafunc.config.getoption("every_gpu_case")
        found = groups(REGISTRY, DEPTH, every_gpu_case)
        left_out = {id(group) for group in absent(REGISTRY, found)}
        found = [group for group in found if id(group) not in left_out]
        rows = [
            pytest.param(group, marks=pytest.mark.gpu if group.backend == "cuda" else ())
            for group in found
        ]
        metafunc.parametrize("group", rows, ids=lambda group: group.name)


def test_cases(group: Group, record_property: Any) -> None:
    outcomes = run_group(REGISTRY, group.cases, group.implementation, SEED, group.most)
    coverage = Coverage()
    coverage.add(outcomes)
    coverage.leave_out(group.key, len(group.cases) - len(outcomes))
    record_property(PROPERTY, json.dumps(coverage.pack()))
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    lines = [f"{o.case.name} {o.case.values}: {o.reason}\n    {o.repro}" for o in failed]
    chosen = f" (drawn with seed {DEPTH.seed})" if group.most else ""
    assert not failed, "\n".join([f"{len(failed)} of {len(outcomes)} cases failed{chosen}", *lines])


@pytest.mark.gpu
def test_the_gpu_that_the_driver_shows_runs_cases() -> None:
    assert not REGISTRY.why_no_cuda


def test_every_operator_has_cases() -> None:
    assert {row["op"] for row in REGISTRY.rows} == set(REGISTRY.operators)


def test_every_operator_has_a_formula() -> None:
    assert set(REGISTRY.formulas) >= set(REGISTRY.operators)
