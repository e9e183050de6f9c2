"""Runs one case with every implementation and judges it.

In: a Case. Out: Outcomes: passed, failed, mistrusted (the comparison proves little), skipped (the
implementation refused). The implementation is pinned; results are compared with the oracle under
its derived bound, and those of ``reference`` with the family's NumPy formula. Read next:
call.py, checks.py, configs.py, docs/testing.md.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..errors import Error, UnsupportedError
from ..tuning import pinned
from .call import PATTERNS, Call, FailedCheck, SkippedCase
from .cases import OVERLAPPING, Case, Registry
from .checks import check_batch, check_formula, check_oracle, check_overlap, check_repeat
from .configs import check_configs, default_config


class Outcome(NamedTuple):
    case: Case
    implementation: str
    status: str  # "passed", "failed", "mistrusted", "skipped"
    reason: str
    configs: tuple[str, ...]  # configurations run, the default first
    repro: str


def _run_one(
    registry: Registry, call: Call, impl: dict[str, Any], seed: int, config: str | None
) -> tuple[str, list[str]]:
    """Status and configurations run; raises FailedCheck, SkippedCase or the library's refusal."""
    op, name = call.case.op, impl["name"]
    if impl["oracle"] and op not in registry.formulas:
        raise SkippedCase("no independent NumPy formula")
    if impl["oracle"] and call.case.layout == OVERLAPPING:
        raise SkippedCase("nothing to compare with the NumPy formula")
    with pinned(op, name, config):
        call.run(PATTERNS[0])
        if call.case.layout == OVERLAPPING:  # of what this implementation would otherwise run
            check_overlap(call)
            return "passed", []
        first = call.bits()
        call.check_memory()
        mistrusted = check_oracle(call)
        if impl["oracle"]:
            check_formula(registry, call)
        check_repeat(call, impl, first)
        if impl["deterministic"]:
            check_batch(call)
        default = config or default_config(call, impl)
    ran = [] if default is None else [default]
    if default and not config and all(tensor.array.size for tensor in call.outcome()):
        ran += check_configs(
            call, impl, default, random.Random(f"{seed} {call.case.identity} {name}")
        )
    return "mistrusted" if mistrusted else "passed", ran


def run_case(
    registry: Registry,
    case: Case,
    implementations: Iterable[dict[str, Any]],
    seed: int,
    config: str | None = None,
) -> Iterator[Outcome]:
    """One Outcome per implementation, never an exception."""
    for impl in implementations:
        name, repro = impl["name"], case.repro(impl["name"], seed, config)
        if impl["backend"] == "cuda" and registry.why_no_cuda:
            yield Outcome(case, name, "skipped", f"no GPU: {registry.why_no_cuda}", (), repro)
            continue
        device = "cuda:0" if impl["backend"] == "cuda" else "cpu"
        configs: list[str] = []
        try:
            status, configs = _run_one(
                registry, Call(registry, case, seed, device), impl, seed, config
            )
            reason = "constant, mostly zero or no reference" if status == "mistrusted" else ""
        except UnsupportedError as refusal:
            first = str(refusal).partition(f"pinned: {name}: no: ")[2]  # a table follows it
            status, reason = "skipped", first.partition("\n")[0]
        except SkippedCase as skip:
            status, reason = "skipped", str(skip)
        except FailedCheck as failure:
            status, reason = "failed", str(failure)
            repro = case.repro(name, seed, failure.config or config)
        except Error as error:
            status, reason = "failed", f"{type(error).__name__}: {error}"
        yield Outcome(case, name, status, reason, tuple(configs), repro)


def run_group(
    registry: Registry, cases: Iterable[Case], implementation: str, seed: int, most: int = 0
) -> list[Outcome]:
    """Runs the cases in order with one implementation, as one pytest item. ``most``: stop after
    that many cases that were not skipped; 0: run all."""
    outcomes: list[Outcome] = []
    for case in cases:
        chosen = [i for i in registry.implementations(case.op) if i["name"] == implementation]
        outcomes += run_case(registry, case, chosen, seed)
        if most and sum(outcome.status != "skipped" for outcome in outcomes) >= most:
            break
    return outcomes
