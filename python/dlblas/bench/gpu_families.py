"""Sections of matrix products and of attention on a GPU: problems, our call, torch's calls.

Used by: gpu_products.py, gpu_attention.py. A problem is a ``Trial``: the call, the number of sets
of tensors, the formula in f32, and the rivals. Read next: gpu_contest.py (how they are checked and
timed).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

import dlblas
from dlblas.bench.gpu_contest import Contest, Row
from dlblas.bench.gpu_session import Session
from dlblas.bench.gpu_timing import Rotation, Run, one_line

Results = tuple[torch.Tensor, ...]


class Trial(NamedTuple):
    op: str  # as it is called
    problem: Row
    sets: int
    run: Run
    reference: Callable[[], Results]
    rivals: dict[str, Run]
    flops: float = 0.0
    bytes: float = 0.0  # that inputs and results are
    search: bool = True
    allowed: float = 1.0  # times the tolerance of the results' dtype


def beside(run: Run) -> Run:
    """``run``, timed but not compared: its results belong to another problem."""

    def timed(i: int) -> tuple[()]:
        run(i)
        return ()

    return timed


class _Calls(logging.Handler):
    """Collects the library's log lines about calls: what ran, with which configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage().split(",")
        if words[1:2] == ["call"] and len(words) > 7:
            self.lines.append(words)


def _what_ran(run: Run) -> tuple[str, str]:
    """Implementation and configuration of each operator in a call. The process must have
    ``DLBLAS_LOG=call``."""
    handler, logger = _Calls(), logging.getLogger("dlblas")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        run(0)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    names = [f"{line[2]}: {line[6]}" for line in handler.lines]
    if len(handler.lines) == 1:
        names = [handler.lines[0][6]]
    return " + ".join(names), " + ".join(line[7] for line in handler.lines)


def measured(
    bench: Session,
    what: str,
    trials: Iterator[functools.partial[Trial]],
    calls: dict[Callable[..., Trial], str],
) -> Iterator[Row]:
    """``calls``: the library function that each kind of trial calls."""
    for make in trials:
        if not bench.wants(calls[make.func]) or not bench.shares():
            continue
        if bench.late():
            return
        try:
            yield _row(bench, what, make())
        except Exception as error:  # of one problem: the others still have theirs
            # In full: an UnsupportedError's table says why each implementation refuses.
            print(f"{what}: {type(error).__name__} {error}", flush=True)
        torch.cuda.empty_cache()


def _row(bench: Session, what: str, trial: Trial) -> Row:
    """A contestant that fails, ours included, has its reason in the row; the others have times."""
    contest = Contest(trial.op, bench.rounds)
    failed = _search(bench, trial) if trial.search else ""
    contest.took("search")
    contest.add("dlblas", dlblas.__version__, trial.run)
    for name, run in trial.rivals.items():
        contest.add(name, torch.__version__, run)
    contest.check(trial.reference(), None, trial.allowed)
    contest.hold(Rotation(trial.sets, int(trial.bytes)))
    ran = ("", "") if contest.failed("dlblas") else _what_ran(trial.run)
    row = contest.row(what, trial.problem, *ran)
    row["flops"], row["bytes"] = trial.flops, trial.bytes
    row["searched"] = trial.search and not failed
    if failed:
        row["search_failed"] = failed
    return row


def _search(bench: Session, trial: Trial) -> str:
    """ "", or why the search failed; the call then runs with the model's choice."""
    try:
        with dlblas.autotune(bench.seconds) as session:
            trial.run(0)
    except Exception as error:
        torch.cuda.synchronize()  # an unusable device ends the section here
        print(f"{trial.op}: search: {type(error).__name__} {error}", flush=True)
        return one_line(error)
    return "; ".join(r["why"] for r in session.report if r["source"] == "failed")
