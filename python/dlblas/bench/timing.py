"""Times several contestants in one process, in turns: other load on the machine then slows all of
them, and minima of many rounds can be compared.

In: name → a function without arguments. Out: name → ``Samples``. Used by the benchmarks and the
demo. Read next: children.py.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any, NamedTuple

ROUNDS = 30
_SAMPLE_NS = 50_000  # shorter runs are repeated until a sample is this long
_WARM_UP = 2

Function = Callable[[], Any]


class Samples(NamedTuple):
    """Milliseconds of one run, one value per round."""

    ms: list[float]
    repeats: int  # runs in a sample

    @property
    def min_ms(self) -> float:
        return min(self.ms)

    @property
    def median_ms(self) -> float:
        return statistics.median(self.ms)

    @property
    def mad_ms(self) -> float:
        """Median absolute deviation."""
        middle = self.median_ms
        return statistics.median(abs(ms - middle) for ms in self.ms)

    def as_dict(self) -> dict[str, Any]:
        return {
            "min_ms": self.min_ms,
            "median_ms": self.median_ms,
            "mad_ms": self.mad_ms,
            "rounds": len(self.ms),
            "repeats": self.repeats,
        }


def _run(function: Function, repeats: int) -> float:
    start = time.perf_counter_ns()
    for _ in repeat(None, repeats):
        function()
    return (time.perf_counter_ns() - start) / repeats


def interleaved(
    contestants: Mapping[str, Function],
    rounds: int = ROUNDS,
    limit_s: float | None = None,
    prepare: Mapping[str, Function] | None = None,
) -> dict[str, Samples]:
    """``rounds`` rounds of one sample each; fewer, but at least five, once ``limit_s`` has passed.

    ``prepare[name]`` runs untimed before each sample of that contestant.
    """
    prepare = prepare or {}
    repeats, times = {}, {name: list[float]() for name in contestants}
    for name, function in contestants.items():
        if name in prepare:
            prepare[name]()
        for _ in range(_WARM_UP):
            once = _run(function, 1)
        repeats[name] = max(1, int(_SAMPLE_NS / max(once, 1)))
    begin = time.monotonic()
    for done in range(rounds):
        if limit_s is not None and done >= 5 and time.monotonic() - begin > limit_s:
            break
        for name, function in contestants.items():
            if name in prepare:
                prepare[name]()
            times[name].append(_run(function, repeats[name]) * 1e-6)
    return {name: Samples(times[name], repeats[name]) for name in contestants}
