"""The operators with a formula in torch (``peers.py`` in their room), on a GPU, at the shapes that
their cases.json has for benchmarks: the library's choice and each implementation's default beside
torch, Inductor and a copy of the bytes needed. Where an operator has a form in place for several
inputs, also on slices of one projection, as serving code has q and k.

Used by: gpu.py. Read next: gpu_contest.py, gpu_timing.py.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch

import dlblas
from dlblas import _dtypes, _specs
from dlblas.bench import peers
from dlblas.bench.gpu_contest import Contest, Row
from dlblas.bench.gpu_session import Session
from dlblas.bench.gpu_timing import Rotation, one_line

Tensors = dict[str, torch.Tensor]
Formula = Callable[..., Any]

# Below both, a launch is what is measured.
_FEW_ROWS, _FEW_ELEMENTS = 64, 1 << 19
_DRAWN = 1 << 22  # elements; more are made on the device
_COPIED = 1 << 16  # elements; copies of other sizes are half as fast


class Problem(NamedTuple):
    """One case of an operator: the shapes of its tensors, and what else a call takes."""

    row: Row
    case: Row
    dtype: str
    specs: dict[str, Any]
    scalars: dict[str, Any]

    @property
    def op(self) -> str:
        return str(self.row["name"])

    def facts(self, name: str) -> Row:
        return next(dict(t) for t in self.row["tensors"] if t["name"] == name)

    def has_rows(self, name: str) -> bool:
        return any(d["text"] in ("T", "*T") for d in self.facts(name)["dims"])

    def elements(self) -> int:
        """Of the largest tensor that has rows."""
        return max(int(math.prod(s.shape)) for n, s in self.specs.items() if self.has_rows(n))

    def told(self) -> Row:
        return dict(self.case["dims"])


def rows(bench: Session) -> Iterator[Row]:
    for row in bench.info["operators"]:
        try:
            formula = getattr(import_module(f"dlblas.ops.{row['name']}_peers"), row["name"])
        except ModuleNotFoundError:
            continue
        problems = list(_problems(row))
        for problem in problems[:1] if bench.quick else problems:
            yield _contest(bench, problem, formula)
        form = next((f for f in row["forms"] if f["inplace"]), None)
        if form and len([name for name in form["receives"] if name]) > 1 and not bench.quick:
            yield _in_place(bench, problems[-1], formula, form)


def _problems(row: Row) -> Iterator[Problem]:
    for case in _specs.cases(row, "bench"):
        dtype = next((d for d in ("bf16", *case["dtypes"]) if d in case["dtypes"]), None)
        if dtype is None:
            continue
        args = case.get("args", {})
        dtypes = {"": dtype, **{n: d for n, d in args.items() if isinstance(d, str)}}
        tensors = {tensor["name"] for tensor in row["tensors"]}
        known = {n: d for n, d in dtypes.items() if n in tensors or not n}
        specs = _specs.tensor_specs(row, case["dims"], known, args)
        scalars = {n: v for n, v in args.items() if n not in tensors}
        sizes = _specs.size_arguments(row, case["dims"])
        problem = Problem(row, case, dtype, specs, {**scalars, **sizes})
        count = math.prod(np.atleast_1d(case["dims"].get("T", _FEW_ROWS)))
        if count >= _FEW_ROWS or problem.elements() >= _FEW_ELEMENTS:
            yield problem


def _torch_dtype(name: str) -> torch.dtype:
    made = getattr(torch, _dtypes.TABLE[name][2])
    assert isinstance(made, torch.dtype)
    return made


def _tensor(problem: Problem, name: str, sets: int) -> torch.Tensor:
    """[sets, …] of one input, as its schema says; a table or a vector is the same in all."""
    spec = problem.specs[name]
    facts, dtype = problem.facts(name), _torch_dtype(spec.dtype)
    shape, count = tuple(spec.shape), math.prod(spec.shape)
    alike = not problem.has_rows(name) and not facts["written"]
    if facts["fill"] in ("", "normal") and dtype.is_floating_point:
        made = torch.randn((1 if alike else sets, *shape), device="cuda", dtype=torch.bfloat16)
        return made.to(dtype).expand(sets, *shape)
    if dtype.is_floating_point and count > _DRAWN:  # positive
        made = torch.rand((1 if alike else sets, *shape), device="cuda") + 0.01
        return made.to(dtype).expand(sets, *shape)
    from dlblas.harness import abi

    array = np.empty(shape, _dtypes.TABLE[spec.dtype][2])
    letters = (problem.case["dims"][letter["name"]] for letter in problem.row["letters"])
    abi.make_input(problem.op, name, [int(np.prod(n)) for n in letters], 7, array)
    if array.dtype.kind == "i":  # in torch a negative index is one from the end
        unused = np.setdiff1d(np.arange(array.max(initial=0)), array)
        array[array < 0] = unused[: np.count_nonzero(array < 0)]
    return torch.from_numpy(array).cuda().expand(sets, *shape)


def _list(made: Any) -> list[torch.Tensor]:
    return [] if made is None else list(made) if isinstance(made, tuple) else [made]


def _call(problem: Problem, tensors: Tensors) -> Any:
    return getattr(dlblas, problem.op)(**tensors, **problem.scalars)


def _search(form: str, named: dict[str, Any], bench: Session) -> Any:
    return dlblas.get_op(form, (), kwargs=named, seconds=bench.seconds)


def _bytes(problem: Problem, results: list[torch.Tensor]) -> int:
    """What the operator has to move: of tables the rows that are used, of written inputs what is
    stored there."""
    count = math.prod(np.atleast_1d(problem.case["dims"].get("T", 1)))
    read = 0
    for name, spec in problem.specs.items():
        size = math.prod(spec.shape) * _dtypes.TABLE[spec.dtype][1] // 8
        if problem.facts(name)["written"]:
            continue
        used = count / spec.shape[0] if len(spec.shape) > 1 and not problem.has_rows(name) else 1
        read += int(size * min(1, used))
    written = sum(r.numel() * r.element_size() for r in results)
    return read + (written or read)


def _reference(problem: Problem, formula: Formula, tensors: Tensors) -> tuple[torch.Tensor, ...]:
    """The formula in f32; results of integers (ids) are not compared: of equals either is right."""
    floats = torch.bfloat16, torch.float16
    wide = {n: t.float() if t.dtype in floats else t.clone() for n, t in tensors.items()}
    made = _list(formula(**wide, **_formula_scalars(problem)))
    made += [wide[n] for n in wide if problem.facts(n)["written"]]
    return tuple(r.float() for r in itertools.takewhile(lambda r: r.is_floating_point(), made))


def _formula_scalars(problem: Problem) -> dict[str, Any]:
    known = import_module(f"dlblas.ops.{problem.op}_peers")
    names = getattr(known, problem.op).__annotations__
    return {n: v for n, v in problem.scalars.items() if n in names}


def _add_torch(contest: Contest, run: Formula, of: Callable[[int], Any]) -> None:
    """The formula, eager and compiled; ``of(i)`` gives its keyword arguments."""
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
    one = {name: _tensor(problem, name, 1)[0] for name in problem.specs}
    results = _list(_call(problem, one))
    turn = bench.rotation(_bytes(problem, results))
    inputs = {name: _tensor(problem, name, turn.sets) for name in problem.specs}
    outputs = [torch.empty((turn.sets, *r.shape), dtype=r.dtype, device=r.device) for r in results]
    contest, scalars = Contest(op, bench.rounds), _formula_scalars(problem)
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
    """The inputs that receive results are neighbouring heads of one tensor [T, heads, D]."""
    torch.compiler.reset()
    receivers = [name for name in form["receives"] if name]
    shapes = [problem.specs[name].shape for name in receivers]
    others = [name for name in problem.specs if name not in receivers]
    wanted = _list(_call(problem, {name: _tensor(problem, name, 1)[0] for name in problem.specs}))
    turn = bench.rotation(_bytes(problem, wanted))
    heads = [shape[1] for shape in shapes]
    # Behind them v, as wide as the last.
    fused = bench.normal(turn.sets, shapes[0][0], sum(heads) + heads[-1], shapes[0][2])
    slices = torch.split(fused[:, :, : sum(heads)], heads, 2)
    shared = {name: _tensor(problem, name, turn.sets) for name in others}
    function = getattr(dlblas, form["name"])
    contest, scalars = Contest(problem.op, bench.rounds), _formula_scalars(problem)

    def given(i: int) -> Tensors:
        parts = dict(zip(receivers, slices, strict=True))
        return {name: (parts.get(name, shared.get(name)))[i] for name in problem.specs}  # type: ignore[index]

    def ours(i: int) -> None:
        function(**given(i), **problem.scalars)

    def theirs(**named: Any) -> None:
        for name, made in zip(receivers, _list(formula(**named)), strict=True):
            named[name].copy_(made)

    wanted = _list(_call(problem, {n: t.contiguous() for n, t in given(0).items()}))
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
