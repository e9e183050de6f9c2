"""Cases in groups, so that thousands of them are a few hundred test items.

In: the registry's cases, a depth and a seed. Out: groups: at full depth one per operator ×
implementation × dtype × layout with all its cases; in a sample one per operator × implementation ×
dtype, whose cases stand in a seeded order that takes turns among layouts and values. Read next:
run.py, tests/test_cases.py, docs/testing.md.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import NamedTuple

from .cases import Case, Registry, expand

PROPERTY = "dlblas_coverage"  # under which a test item hands its Coverage over
# Cases of a group that run in a sample, refused ones not counted. On a GPU nearly each is compiled.
MOST = 16
MOST_ON_GPU = {"contiguous": 5}
MOST_ON_GPU_ELSE = 1
# Products of dimensions above this take a second or more: at full depth only, where a group has
# anything else.
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
    """How much of everything a run of the tests tries, and the seed of what it draws."""

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
    """All of them in a seeded order: one of each kind (layout and values) in turn, then the next of
    each; every second one plain, because those try configurations. Heavy ones stand last."""
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
    """What a run of this depth tries, whether a GPU is here or not."""
    found: list[Group] = []
    sampled: dict[tuple[str, str, str], list[Case]] = {}
    for group in _by_layout(registry):
        if group.backend == "cuda":
            most = 0 if every_gpu_case else MOST_ON_GPU.get(group.layout, MOST_ON_GPU_ELSE)
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
        found.append(Group(*key, "sample", "cpu", MOST, chosen))
    return found


def absent(registry: Registry, found: Iterable[Group]) -> list[Group]:
    """Those of a device that is not here: they are counted, not run."""
    return [group for group in found if group.backend == "cuda" and registry.why_no_cuda]
