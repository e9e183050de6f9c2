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


def backend_of(registry: Registry, group: Group) -> str:
    """ "cpu" or "cuda"."""
    found = registry.implementations(group.op)
    return str(next(impl["backend"] for impl in found if impl["name"] == group.implementation))


def absent(registry: Registry) -> list[Group]:
    """Those of a device that is not here: they are skipped, not missed."""
    if not registry.why_no_cuda:
        return []
    return [group for group in groups(registry) if backend_of(registry, group) == "cuda"]


def groups(registry: Registry) -> list[Group]:
    found: dict[tuple[str, str, str, str], Group] = {}
    for case in expand(registry):
        for impl in registry.implementations(case.op):
            key = (case.op, impl["name"], case.dtype, case.layout)
            found.setdefault(key, Group(*key, [])).cases.append(case)
    return list(found.values())
