"""What tests must know of an operator: ``TESTS`` of ``tests.py`` in its folder, or in its family's
folder where several operators share it. Optional, read from the tree, in no wheel.

In: the name of an operator. Out: its ``Facts``. Raises LookupError for a key that no test reads.
Tests name no operator to know these. Read next: docs/add_an_operator.md, docs/testing.md.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Facts(NamedTuple):
    """The defaults suit an operator that has no file. First what test_oracle_says_no.py reads."""

    # Factors by which one element's undetected error may exceed that of other operators: "f32" in
    # roundings of f32; "bf16" and "f16", for inputs of these dtypes, in 2^-8 of the largest value
    # of its row or column; "long" times f32's, of sums of 2^22 terms and more.
    hidden: Mapping[str, float] = {}
    scalars: Mapping[str, Any] = {}  # as users set them
    # A table whose negation, beside inputs that are all positive, shows how large the terms are.
    negated: str = ""
    never: Mapping[str, tuple[str, ...]] = {}  # result -> perturbations of it that do not show
    at_most: Mapping[str, str] = {}  # letter -> one that the operator's check requires as large
    largest: Mapping[str, int] = {}  # letter -> where its reference takes 14 GB or a minute
    # Letters at whose largest sizes one element's error does not show, but that of all does.
    all_elements: tuple[str, ...] = ()
    # Letters that it has rows for in the table of docs/testing.md: one operator for each way to
    # accumulate, and one that sums nothing.
    table: tuple[str, ...] = ()
    # test_judges_say_no.py: how to spoil results that only the operator's own judge can refuse.
    judge: Any = None
    # test_same_bits*.py: how a batch is cut where a row is not a row of every argument, or why it
    # has no parts (batch_parts.py); whether all implementations have the same bits anyway.
    parts: Callable[..., Any] | str | None = None
    exact: bool = False
    # Implementations with the same bits under `deterministic`, as test_same_bits_wgmma.py checks on
    # a GPU: either may serve a batch.
    alike: tuple[str, ...] = ()
    as_made: tuple[str, ...] = ()  # inputs that another operator made: no views of them
    bounded: tuple[str, ...] = ()  # test_places.py: indices that every call checks
    # tools/gpu_check, of what was wrong on a GPU or is unproven there: the values of the harness
    # that it tries before anything else.
    faults: str = ""


def files_of(root: pathlib.Path, op: str = "*") -> list[pathlib.Path]:
    """The families' own files, then those of the operators."""
    return [*sorted(root.glob("ops/*/tests.py")), *sorted(root.glob(f"ops/*/{op}/tests.py"))]


@functools.cache
def read(path: pathlib.Path) -> dict[str, Facts]:
    spec = importlib.util.spec_from_file_location(f"tests_of_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {}
    for op, facts in module.TESTS.items():
        if unknown := [key for key in facts if key not in Facts._fields]:
            known = ", ".join(Facts._fields)
            raise LookupError(f"{path}: {op}: unknown {unknown[0]}; expected one of {known}")
        found[op] = Facts(**facts)
    return found


def kinds_of(op: str, implementations: list[str]) -> set[str]:
    """Those that may differ in their bits under `deterministic`: of those alike, the first."""
    alike = facts_of(op).alike
    return {alike[0] if name in alike else name for name in implementations}


def facts_of(op: str) -> Facts:
    places = [path for path in files_of(ROOT, op) if op in read(path)]
    if len(places) > 1:
        raise LookupError(f"{op} is in {places[0]} and in {places[1]}; expected one place")
    return read(places[0])[op] if places else Facts()
