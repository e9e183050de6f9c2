"""The operators that are row programs, on a GPU: the library's choice and each implementation's
default beside a copy of the bytes needed, torch and Inductor.

Used by: gpu.py. Read next: gpu_contest.py, gpu_timing.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

import dlblas
from dlblas.bench import peers
from dlblas.bench.gpu_contest import Contest, Row
from dlblas.bench.gpu_session import Session
from dlblas.bench.gpu_timing import one_line

Tensors = tuple[torch.Tensor, ...]


def _silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def _silu_and_mul_backward(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    share = torch.sigmoid(gate)
    slope = share * (1 + gate * (1 - share))
    return torch.cat((dy * up * slope, dy * gate * share), -1)


class RowOperator(NamedTuple):
    """``widths``: of each input and of the result, in units of the problem's width; an input of 0
    is a vector over columns."""

    inputs: tuple[int, ...]
    result: int
    formula: Callable[..., torch.Tensor]
    letter: str
    problems: tuple[tuple[int, int], ...]


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias)


_SOFTMAX = functools.partial(torch.softmax, dim=-1)
_GATED = ((128, 11264), (16384, 11264))
OPERATORS = {
    "softmax": RowOperator(
        (1,), 1, _SOFTMAX, "C",
        ((128, 4096), (16384, 4096), (4096, 8192), (131072, 128), (1024, 65536), (16, 4194304)),
    ),
    "layer_norm": RowOperator(
        (1, 0, 0), 1, _layer_norm, "C",
        ((128, 4096), (16384, 4096), (4096, 8192), (131072, 128), (1024, 65536)),
    ),
    "silu_and_mul": RowOperator((2,), 1, _silu_and_mul, "F", _GATED),
    "silu_and_mul_backward": RowOperator((1, 2), 2, _silu_and_mul_backward, "F", _GATED),
}  # fmt: skip


def rows(bench: Session) -> Iterator[Row]:
    for name, operator in OPERATORS.items():
        for problem in operator.problems[:1] if bench.quick else operator.problems:
            yield _contest(bench, name, operator, *problem)


def _contest(bench: Session, op: str, of: RowOperator, count: int, width: int) -> Row:
    torch.compiler.reset()  # another problem is another program: no recompilation limit
    turn = bench.rotation((sum(of.inputs) + of.result) * count * width * 2)
    inputs = [
        bench.normal(turn.sets, *((count, part * width) if part else (width,)))
        for part in of.inputs
    ]
    result = bench.normal(turn.sets, count, of.result * width)
    contest, problem = Contest(op, bench.rounds), {"T": count, of.letter: width}
    function = getattr(dlblas, op)

    def given(i: int) -> Tensors:
        return tuple(x[i] for x in inputs)

    def ours(i: int) -> Any:
        return function(*given(i), out=result[i])

    call = dlblas.get_op(op, given(0), seconds=bench.seconds)
    contest.took("search")
    contest.add("dlblas", dlblas.__version__, ours)
    for name in bench.cuda_implementations(op):
        contest.add(f"default {name}", "", ours, functools.partial(dlblas.pin, op, name))
    contest.add("torch", torch.__version__, lambda i: of.formula(*given(i)))
    try:
        compiled = torch.compile(of.formula, dynamic=False)
        contest.add("inductor", torch.__version__, lambda i: compiled(*given(i)))
    except Exception as error:
        contest.missing("inductor", one_line(error), torch.__version__)
    half = turn.bytes_a_set // 4  # bf16 elements, read and written
    source = bench.normal(turn.sets, half)
    to = torch.empty_like(source)
    contest.add(peers.COPY, torch.__version__, lambda i: to[i].copy_(source[i]))
    contest.check((of.formula(*(x.float() for x in given(0))),), lambda: result[0])
    contest.hold(turn)
    plan = call.explain().as_dict()
    row = contest.row("gpu_rows", problem, plan["implementation"], plan["config"])
    row["bytes"] = turn.bytes_a_set
    return row
