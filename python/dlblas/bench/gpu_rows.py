"""The operators with a torch formula (``peers.py`` in their folder) on a GPU, at the benchmark
shapes of their cases.json: the library's choice and each implementation's default beside torch,
Inductor and a copy of the bytes needed. Operators with an in-place form of several inputs also run
on slices of one projection, as serving code has q and k.

Used by: gpu.py. Read next: problems.py, gpu_contest.py.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

import dlblas
from dlblas.bench import peers
from dlblas.bench.gpu_contest import Contest, Row
from dlblas.bench.gpu_session import Session
from dlblas.bench.gpu_timing import Rotation, one_line
from dlblas.bench.problems import (
    Formula,
    Problem,
    Tensors,
    aligned,
    aligned_empty,
    as_list,
    bytes_of,
    formula_of,
    formula_scalars,
    make_tensor,
    problems_of,
    run,
    sections_of,
)

# Below both limits, only the launch is measured.
_FEW_ROWS, _FEW_ELEMENTS = 64, 1 << 19
_COPIED = 1 << 16  # elements; copies of other sizes are half as fast


def rows(bench: Session) -> Iterator[Row]:
    """The largest problem of each operator, then the next: a run cut short has seen them all."""
    found = [_contests(bench, r) for r in bench.info["operators"] if bench.wants(r["name"])]
    turns = [
        contest
        for turn in itertools.zip_longest(*found)
        for contest in turn
        if contest is not None and bench.shares()
    ]
    for done, contest in enumerate(turns):
        if bench.late():
            print(f"gpu_rows: {len(turns) - done} of {len(turns)} problems left out", flush=True)
            return
        try:
            yield contest()
        except Exception as error:  # of one problem
            print(f"gpu_rows: {contest.args[1].op}: {one_line(error)}", flush=True)
        torch.cuda.empty_cache()  # the library allocates beside torch


def _contests(bench: Session, row: Row) -> list[functools.partial[Row]]:
    formula = formula_of(row)
    if formula is None or sections_of(row):
        return []
    problems = sorted(_problems(row), key=lambda p: -p.elements())
    if bench.quick:
        return [functools.partial(_contest, bench, problems[-1], formula)]
    made = [functools.partial(_contest, bench, problem, formula) for problem in problems]
    form = next((f for f in row["forms"] if f["inplace"]), None)
    receivers = [name for name in form["receives"] if name] if form else []
    if form and len(receivers) > 1 and all(len(problems[0].specs[n].shape) == 3 for n in receivers):
        made.insert(1, functools.partial(_in_place, bench, problems[0], formula, form))
    return made


def _problems(row: Row) -> list[Problem]:
    def is_small(problem: Problem) -> bool:
        few = "T" in problem.told() and problem.num_rows() < _FEW_ROWS
        return few and problem.elements() < _FEW_ELEMENTS

    return [problem for problem in problems_of(row, "bf16") if not is_small(problem)]


def _search(form: str, named: dict[str, Any], bench: Session) -> Any:
    return dlblas.get_op(form, (), kwargs=named, seconds=bench.seconds)


def _reference(problem: Problem, formula: Formula, tensors: Tensors) -> tuple[torch.Tensor, ...]:
    """The formula in f32, up to the first integer result: with ties, different ids are right."""
    floats = torch.bfloat16, torch.float16
    wide = {n: t.float() if t.dtype in floats else t.clone() for n, t in tensors.items()}
    made = as_list(formula(**wide, **formula_scalars(problem)))
    made += [wide[n] for n in wide if problem.facts(n)["written"]]
    return tuple(r.float() for r in itertools.takewhile(lambda r: r.is_floating_point(), made))


def _add_torch(contest: Contest, run: Formula, of: Callable[[int], Any]) -> None:
    """Adds the formula, eager and compiled; ``of(i)`` gives its keyword arguments."""
    contest.add("torch", torch.__version__, lambda i: run(**of(i)))
    try:
        compiled = torch.compile(run, dynamic=False)
        contest.add("inductor", torch.__version__, lambda i: compiled(**of(i)))
    except Exception as error:
        contest.missing("inductor", one_line(error), torch.__version__)


def _add_copy(contest: Contest, bench: Session, turn: Rotation) -> None:
    count = -(-turn.bytes_a_set // 4 // _COPIED) * _COPIED  # bf16, read and written
    source = bench.normal(turn.sets, count)
    to = torch.empty_like(source)
    contest.add(peers.COPY, torch.__version__, lambda i: to[i].copy_(source[i]))


def _contest(bench: Session, problem: Problem, formula: Formula) -> Row:
    torch.compiler.reset()  # another problem is another program: no recompilation limit
    op = problem.op
    one = {name: make_tensor(problem, name, 1, "cuda")[0] for name in problem.specs}
    results = as_list(run(problem, one))
    turn = bench.rotation(bytes_of(problem, results))
    inputs = {n: aligned(make_tensor(problem, n, turn.sets, "cuda")) for n in problem.specs}
    outputs = [aligned_empty(turn.sets, r.shape, r.dtype) for r in results]
    contest, scalars = Contest(op, bench.rounds), formula_scalars(problem)
    function = getattr(dlblas, op)

    def given(i: int) -> Tensors:
        return {name: tensor[i] for name, tensor in inputs.items()}

    def ours(i: int) -> Any:
        made = tuple(r[i] for r in outputs)
        out = {"out": made if len(made) > 1 else made[0]} if made else {}
        return function(**given(i), **problem.scalars, **out)

    def written() -> Any:
        return tuple(inputs[n][0] for n in inputs if problem.facts(n)["written"])

    call = _search(op, {**given(0), **problem.scalars}, bench)
    contest.took("search")
    contest.add("dlblas", dlblas.__version__, ours)
    for name in bench.cuda_implementations(op):
        contest.add(f"default {name}", "", ours, functools.partial(dlblas.pin, op, name))
    _add_torch(contest, formula, lambda i: {**given(i), **scalars})
    _add_copy(contest, bench, turn)
    contest.check(_reference(problem, formula, given(0)), written if not results else None)
    contest.hold(turn)
    plan = call.explain().as_dict()
    row = contest.row("gpu_rows", problem.told(), plan["implementation"], plan["config"])
    row["dtype"], row["bytes"] = problem.dtype, turn.bytes_a_set
    return row


def _in_place(bench: Session, problem: Problem, formula: Formula, form: Row) -> Row:
    """The inputs that receive results are adjacent heads of one tensor [T, heads, D]."""
    torch.compiler.reset()
    receivers = [name for name in form["receives"] if name]
    shapes = [problem.specs[name].shape for name in receivers]
    others = [name for name in problem.specs if name not in receivers]
    wanted = as_list(
        run(problem, {name: make_tensor(problem, name, 1, "cuda")[0] for name in problem.specs})
    )
    turn = bench.rotation(bytes_of(problem, wanted))
    heads = [shape[1] for shape in shapes]
    # v follows them, with as many heads as the last one.
    fused = bench.normal(turn.sets, shapes[0][0], sum(heads) + heads[-1], shapes[0][2])
    slices = torch.split(fused[:, :, : sum(heads)], heads, 2)
    shared = {name: make_tensor(problem, name, turn.sets, "cuda") for name in others}
    function = getattr(dlblas, form["name"])
    contest, scalars = Contest(problem.op, bench.rounds), formula_scalars(problem)

    def given(i: int) -> Tensors:
        parts = dict(zip(receivers, slices, strict=True))
        return {name: (parts.get(name, shared.get(name)))[i] for name in problem.specs}  # type: ignore[index]

    def ours(i: int) -> None:
        function(**given(i), **problem.scalars)

    def theirs(**named: Any) -> None:
        for name, made in zip(receivers, as_list(formula(**named)), strict=True):
            named[name].copy_(made)

    wanted = as_list(run(problem, {n: t.contiguous() for n, t in given(0).items()}))
    call = _search(form["name"], {**given(0), **problem.scalars}, bench)
    ours(0)
    for part, right in zip(slices, wanted, strict=True):
        if not torch.equal(part[0], right):
            raise ArithmeticError(f"{form['name']}: slices in place are not the plain result")
    contest.took("search")
    contest.add("dlblas", dlblas.__version__, ours)
    _add_torch(contest, theirs, lambda i: {**given(i), **scalars})
    _add_copy(contest, bench, turn)
    contest.hold(turn)
    plan = call.explain().as_dict()
    told = {**problem.told(), "layout": "slices of one projection, in place"}
    row = contest.row("gpu_rows", told, plan["implementation"], plan["config"])
    row["bytes"] = turn.bytes_a_set
    return row
