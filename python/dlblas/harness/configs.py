"""Configurations beyond the default: every value of every knob for small shapes, else a seeded
sample.

In: a Call, an implementation with knobs. Out: the configurations that ran, or FailedCheck with the
one that failed. Read next: run.py.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from typing import Any

from .. import _functions
from ..errors import UnsupportedError
from ..tuning import pinned
from .call import PATTERNS, Call, FailedCheck
from .checks import check_oracle

# Every value of every knob runs up to this product of the dimensions; 193×64×65 is below it.
_SMALL = 1_000_000
_SAMPLED = 2  # random configurations of each larger or special case
_SAMPLED_ON_GPU = 6
_ROWS_CHECKED = 24  # rows compared for a configuration beyond the default


def _candidates(
    impl: dict[str, Any], default: str, sweep: bool, rng: random.Random
) -> Iterator[str]:
    """Configurations beyond the default: with ``sweep`` each value of each knob once, then an
    endless stream of random ones."""
    knobs = {
        k["name"]: [int(v) if isinstance(v, bool) else v for v in k["values"]]
        for k in impl["knobs"]
    }
    chosen = dict(pair.split("=", 1) for pair in default.split())
    if sweep:
        for name, domain in knobs.items():
            for value in domain:
                if str(value) != chosen.get(name):
                    yield " ".join(f"{k}={v}" for k, v in {**chosen, name: value}.items())
    while True:  # far from the default, but not so far that constraints refuse nearly all
        moved = {name: rng.choice(domain) for name, domain in knobs.items() if rng.random() < 0.5}
        yield " ".join(f"{k}={v}" for k, v in {**chosen, **moved}.items())


def _check_rows(call: Call, rng: random.Random) -> list[int]:
    """The first and last row, the edges of small tiles, and seeded random rows."""
    shape = call.outcome()[0].shape
    count = math.prod(shape[:-1])
    if count <= _ROWS_CHECKED:
        return list(range(count))
    edges = [r for e in (8, 16, 24) for r in (e - 1, e)]
    return sorted(
        {
            0,
            count - 1,
            *(r for r in edges if r < count),
            *rng.sample(range(count), _ROWS_CHECKED // 2),
        }
    )


def default_config(call: Call, impl: dict[str, Any]) -> str | None:
    """The configuration chosen under the pin of ``impl``; None without knobs or if not chosen."""
    if not impl["knobs"]:
        return None
    named = call.named()
    chosen = json.loads(_functions.native["explain"](call.case.op, (), named, 0))
    return str(chosen["config"]) if chosen["implementation"] == impl["name"] else None


def check_configs(call: Call, impl: dict[str, Any], default: str, rng: random.Random) -> list[str]:
    """Runs configurations beyond the default; returns those that are valid for the problem."""
    work = math.prod(math.prod(v) if isinstance(v, list) else v for v in call.case.dims.values())
    plain = call.case.values == "normal" and call.case.layout in ("contiguous", "row_strided")
    sweep = plain and work <= _SMALL
    sampled = _SAMPLED
    if call.device != "cpu":  # each is compiled: a few of one case in five
        chosen = sweep and call.case.layout == "contiguous" and rng.random() < 0.2
        sweep, sampled = False, _SAMPLED_ON_GPU if chosen else 0
    most = sampled + (sum(len(k["values"]) - 1 for k in impl["knobs"]) if sweep else 0)
    rows_checked = _check_rows(call, rng)
    ran: list[str] = []
    for tried, config in enumerate(_candidates(impl, default, sweep, rng)):
        if len(ran) >= most or tried >= 3 * most:
            break
        try:
            with pinned(call.case.op, impl["name"], config):
                _check_config(call, rows_checked)
        except UnsupportedError as refusal:
            if "breaks the constraint" not in str(refusal):
                raise
            continue
        except FailedCheck as failure:
            raise FailedCheck(str(failure), config) from None
        ran.append(config)
    return ran


def _check_config(call: Call, rows: list[int]) -> None:
    call.run(PATTERNS[0])
    call.check_memory()
    check_oracle(call, rows)
    before = [] if call.form else call.holding(PATTERNS[0])
    if any(mask.any() for mask in before):
        call.run(PATTERNS[1])
        if call.unwritten(PATTERNS[1], before):
            raise FailedCheck("elements were not written")
