"""Every operator × implementation × case × dtype × layout × values against the oracle: the harness,
item by item.

A failing item lists each failing case with the line that repeats it. Read next:
python/dlblas/harness/run.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from dlblas.harness import Coverage, load_registry, run_group
from dlblas.harness.groups import PROPERTY, Group, backend_of, groups

SEED = 7
# On a GPU nearly every case is compiled: so many of a group are run, the first of a seeded order
# that the implementation serves. `pytest --every-gpu-case`, or `dlblas test`, runs all.
MOST_ON_GPU = {"contiguous": 5}
MOST_ON_GPU_ELSE = 1
REGISTRY = load_registry()


def _parameter(group: Group) -> Any:
    """Those of the GPU are `-m gpu`'s as well; without one they are skipped with the reason."""
    on_gpu = backend_of(REGISTRY, group) == "cuda"
    return pytest.param(group, marks=pytest.mark.gpu if on_gpu else ())


@pytest.mark.parametrize(
    "group", [_parameter(group) for group in groups(REGISTRY)], ids=lambda group: group.name
)
def test_cases(group: Group, record_property: Any, pytestconfig: pytest.Config) -> None:
    every = pytestconfig.getoption("every_gpu_case") or backend_of(REGISTRY, group) == "cpu"
    most = 0 if every else MOST_ON_GPU.get(group.layout, MOST_ON_GPU_ELSE)
    outcomes = run_group(REGISTRY, group.cases, group.implementation, SEED, most)
    coverage = Coverage()
    coverage.add(outcomes)
    record_property(PROPERTY, json.dumps(coverage.pack()))
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    lines = [f"{o.case.name} {o.case.values}: {o.reason}\n    {o.repro}" for o in failed]
    chosen = f" (chosen with seed {SEED})" if most else ""
    assert not failed, "\n".join([f"{len(failed)} of {len(outcomes)} cases failed{chosen}", *lines])


def test_every_operator_has_cases() -> None:
    assert {row["op"] for row in REGISTRY.rows} == set(REGISTRY.operators)


def test_every_operator_has_a_formula() -> None:
    assert set(REGISTRY.formulas) >= set(REGISTRY.operators)
