"""Sections of matrix products and of attention on a GPU: problems, our call, torch's calls.

Used by: gpu.py. A problem is a ``Trial``: what is called, on how many sets of tensors, the formula
in f32, and the rivals. Read next: gpu_contest.py (how they are checked and timed).
"""

from __future__ import annotations

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


class _Calls(logging.Handler):
    """The library's own lines about calls: what ran, with which configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage().split(",")
        if words[1:2] == ["call"] and len(words) > 7:
            self.lines.append(words)


def _what_ran(run: Run) -> tuple[str, str]:
    """Implementation and configuration of a call, of each of its operators. The process has
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


def measured(bench: Session, what: str, trials: Iterator[Callable[[], Trial]]) -> Iterator[Row]:
    for make in trials:
        if bench.late():
            return
        try:
            yield _row(bench, what, make())
        except Exception as error:  # of one problem: the others still have theirs
            print(f"{what}: {one_line(error)}", flush=True)
        torch.cuda.empty_cache()


def _row(bench: Session, what: str, trial: Trial) -> Row:
    contest = Contest(trial.op, bench.rounds)
    if trial.search:
        with dlblas.autotune(bench.seconds):
            trial.run(0)
    contest.took("search")
    contest.add("dlblas", dlblas.__version__, trial.run)
    for name, run in trial.rivals.items():
        contest.add(name, torch.__version__, run)
    contest.check(trial.reference(), None)
    contest.hold(Rotation(trial.sets, int(trial.bytes)))
    row = contest.row(what, trial.problem, *_what_ran(trial.run))
    row["flops"], row["bytes"], row["searched"] = trial.flops, trial.bytes, trial.search
    return row
