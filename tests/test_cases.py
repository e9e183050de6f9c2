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
REGISTRY = load_registry()


def _parameter(group: Group) -> Any:
    """Those of the GPU are `-m gpu`'s as well; without one they are skipped with the reason."""
    on_gpu = backend_of(REGISTRY, group) == "cuda"
    return pytest.param(group, marks=pytest.mark.gpu if on_gpu else ())


@pytest.mark.parametrize(
    "group", [_parameter(group) for group in groups(REGISTRY)], ids=lambda group: group.name
)
def test_cases(group: Group, record_property: Any) -> None:
    outcomes = run_group(REGISTRY, group.cases, group.implementation, SEED)
    coverage = Coverage()
    coverage.add(outcomes)
    record_property(PROPERTY, json.dumps(coverage.pack()))
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    lines = [f"{o.case.name} {o.case.values}: {o.reason}\n    {o.repro}" for o in failed]
    assert not failed, "\n".join([f"{len(failed)} of {len(outcomes)} cases failed", *lines])


def test_every_operator_has_cases() -> None:
    assert {row["op"] for row in REGISTRY.rows} == set(REGISTRY.operators)


def test_every_operator_has_a_formula() -> None:
    assert set(REGISTRY.formulas) >= set(REGISTRY.operators)
