"""Cases in groups, so that thousands of them are a few hundred test items: one an operator ×
implementation × dtype × layout. Read next: tests/test_cases.py."""

from __future__ import annotations

from typing import NamedTuple

from .cases import Case, Registry, expand

PROPERTY = "dlblas_coverage"  # under which a test item hands its Coverage over


class Group(NamedTuple):
    op: str
    implementation: str
    dtype: str
    layout: str
    cases: list[Case]

    @property
    def name(self) -> str:
        return f"{self.op}-{self.implementation}-{self.dtype}-{self.layout}"


def groups(registry: Registry) -> list[Group]:
    found: dict[tuple[str, str, str, str], Group] = {}
    for case in expand(registry):
        for impl in registry.implementations(case.op):
            key = (case.op, impl["name"], case.dtype, case.layout)
            found.setdefault(key, Group(*key, [])).cases.append(case)
    return list(found.values())
