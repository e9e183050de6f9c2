"""The operators that are row programs, on a CPU: the searched call beside torch in eager mode and a
copy of the same bytes, in turns in one process.

Used by: children.py. Read next: gpu_rows.py (the same on a GPU), copying.py.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

import dlblas
from dlblas.bench.copying import Copy, Helper
from dlblas.bench.timing import interleaved

Row = dict[str, Any]
COPIES = ("plain copy", "streamed copy")


class Bench(Protocol):
    """What a section of the bench is asked for."""

    quick: bool
    seconds: float
    rounds: int
    threads: int
    helpers: list[Helper]


class RowOperator(NamedTuple):
    """``inputs``: widths of each input, in units of the problem's width; 0: a vector over columns.
    ``formula``: the same in torch."""

    inputs: tuple[int, ...]
    letter: str
    formula: Callable[..., Any]


def _silu_and_mul(x: Any) -> Any:
    from torch.nn.functional import silu

    gate, up = x.chunk(2, -1)
    return silu(gate) * up


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    from torch.nn.functional import layer_norm

    return layer_norm(x, weight.shape, weight, bias)


def _quantize(x: Any, group: int = 0) -> Any:
    import torch

    parts = x.float().unflatten(-1, (-1, group)) if group else x.float()
    scale = parts.abs().amax(-1, keepdim=True) / 448
    q = (parts / scale).to(torch.float8_e4m3fn)
    return (q.flatten(-2), scale.squeeze(-1)) if group else (q, scale)


OPERATORS = {
    "softmax": RowOperator((1,), "C", lambda x: x.softmax(-1)),
    "silu_and_mul": RowOperator((2,), "F", _silu_and_mul),
    "layer_norm": RowOperator((1, 0, 0), "C", _layer_norm),
    "quantize_token": RowOperator((1,), "K", _quantize),
    "quantize_group": RowOperator((1,), "K", functools.partial(_quantize, group=128)),
}
# 16 MB of f32 in each input of a row, and 128.
_PROBLEMS = ((1024, 4096), (8192, 4096))


def rows(bench: Bench) -> Iterator[Row]:
    for op, of in OPERATORS.items():
        for dtype in ("float32", "bfloat16"):
            for problem in ((4, 256),) if bench.quick else _PROBLEMS:
                yield _contest(bench, op, of, dtype, *problem)


def _row(op: str, of: RowOperator, dtype: str, t: int, c: int, ours: Row) -> Row:
    name = {"float32": "f32", "bfloat16": "bf16"}[dtype]
    problem = {"T": t, of.letter: c}
    return {"what": "rows", "op": op, "problem": problem, "dtype": name, "ours": ours}


def _contest(bench: Bench, op: str, of: RowOperator, dtype: str, t: int, c: int) -> Row:
    if importlib.util.find_spec("torch") is None:
        missing = {"name": "dlblas", "missing": "torch is not installed"}
        return {**_row(op, of, dtype, t, c, missing), "peers": [], "ratio": None}
    import torch

    torch.set_num_threads(bench.threads)
    shapes = [(t, n * c) if n else (c,) for n in of.inputs]
    inputs = [torch.randn(shape).to(getattr(torch, dtype)) for shape in shapes]
    call = dlblas.get_op(op, tuple(inputs), seconds=bench.seconds)
    made = getattr(dlblas, op)(*inputs)
    outputs = made if isinstance(made, tuple) else (made,)
    total = sum(a.nbytes for a in (*inputs, *outputs))
    source, to = (np.ones(total // 2, np.uint8) for _ in range(2))
    copies = [Copy([(to, source)], bench.threads, stream) for stream in (False, True)]
    with torch.no_grad():
        times = interleaved(
            {
                "ours": functools.partial(call, *inputs, out=made),
                "torch": functools.partial(of.formula, *inputs),
                **{
                    name: functools.partial(copy.run, bench.helpers)
                    for name, copy in zip(COPIES, copies, strict=True)
                },
            },
            bench.rounds,
        )
    best = min(COPIES, key=lambda kind: times[kind].min_ms)
    plan = call.explain().as_dict()
    ours = {"name": plan["implementation"], "config": plan["config"], **times["ours"].as_dict()}
    versions = {"torch": torch.__version__, **dict.fromkeys(COPIES, "memmove")}
    peers = [{"name": n, "version": v, **times[n].as_dict()} for n, v in versions.items()]
    return {
        **_row(op, of, dtype, t, c, ours),
        "peers": peers,
        "against": best,
        "bytes": total,
        "ratio": times[best].min_ms / times["ours"].min_ms,
    }
