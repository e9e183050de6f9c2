"""Groups cases, so that thousands of them become a few hundred test items.

In: the registry's cases, a depth and a seed. Out: groups: at full depth one per operator ×
implementation × dtype × layout with all its cases; in a sample, on the CPU, one per operator ×
implementation × dtype, whose cases alternate among layouts and values in a seeded order. Read next:
run.py, tests/test_cases.py, docs/testing.md.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import NamedTuple

from .cases import Case, Registry, expand

PROPERTY = "dlblas_coverage"  # under which a test item hands its Coverage over
# Cases run per group in a sample, not counting refused ones. On a GPU nearly every one compiles.
MAX_CASES = 16
MAX_ON_GPU = {"contiguous": 5}
MAX_ON_GPU_ELSE = 1
# Cases with a larger product of dimensions take a second or more. They come last, so a sample runs
# them only if a group has too few others.
_HEAVY = 1 << 22


class Group(NamedTuple):
    op: str
    implementation: str
    dtype: str
    layout: str  # "sample": of all layouts
    backend: str  # "cpu" or "cuda"
    most: int  # cases to run; 0: all
    cases: list[Case]

    @property
    def name(self) -> str:
        return f"{self.op}-{self.implementation}-{self.dtype}-{self.layout}"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.op, self.implementation, self.dtype


class Depth(NamedTuple):
    """How much a test run covers, and the seed of its random draws."""

    full: bool
    seed: int


def _by_layout(registry: Registry) -> list[Group]:
    found: dict[tuple[str, str, str, str], Group] = {}
    for case in expand(registry):
        for impl in registry.implementations(case.op):
            key = (case.op, impl["name"], case.dtype, case.layout)
            found.setdefault(key, Group(*key, impl["backend"], 0, [])).cases.append(case)
    return list(found.values())


def _heavy(case: Case) -> bool:
    sizes = (math.prod(v) if isinstance(v, list) else v for v in case.dims.values())
    return math.prod(sizes) > _HEAVY


def in_turns(cases: Iterable[Case], seed: str) -> list[Case]:
    """All cases in a seeded order: round robin over the kinds (layout and values), alternating with
    plain cases, because those also try configurations. Heavy cases come last."""
    draw = random.Random(seed)
    kinds: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        kinds.setdefault((case.layout, case.values), []).append(case)
    for of_kind in kinds.values():
        draw.shuffle(of_kind)
    plain = kinds.pop(("contiguous", "normal"), [])
    rest = list(kinds.values())
    draw.shuffle(rest)
    rounds = range(max(map(len, rest), default=0))
    others = [kind[i] for i in rounds for kind in rest if i < len(kind)]
    longer = max(len(plain), len(others))
    mixed = [case for i in range(longer) for case in (*others[i : i + 1], *plain[i : i + 1])]
    return sorted(mixed, key=_heavy)  # stable


def groups(registry: Registry, depth: Depth, every_gpu_case: bool = False) -> list[Group]:
    """The groups that a run of this depth covers, whether or not a GPU is present."""
    found: list[Group] = []
    sampled: dict[tuple[str, str, str], list[Case]] = {}
    for group in _by_layout(registry):
        if group.backend == "cuda":
            most = 0 if every_gpu_case else MAX_ON_GPU.get(group.layout, MAX_ON_GPU_ELSE)
            order = random.Random(f"{depth.seed} {group.implementation}")
            cases = list(group.cases)
            if most:
                order.shuffle(cases)
            found.append(group._replace(most=most, cases=cases))
        elif depth.full:
            found.append(group)
        else:
            sampled.setdefault(group.key, []).extend(group.cases)
    for key, cases in sampled.items():
        chosen = in_turns(cases, f"{depth.seed} {' '.join(key)}")
        found.append(Group(*key, "sample", "cpu", MAX_CASES, chosen))
    return found


def absent(registry: Registry, found: Iterable[Group]) -> list[Group]:
    """The groups whose device is not present: they are counted, not run."""
    return [group for group in found if group.backend == "cuda" and registry.why_no_cuda]
