"""The operators with a torch formula (``peers.py`` in their folder) on a CPU, at the benchmark
shapes of their cases.json: the searched call beside torch, eager and compiled by Inductor, and a
copy of the same bytes, timed in turns in one process.

Used by: children.py. Read next: problems.py, gpu_rows.py (the same on a GPU), copying.py.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import dlblas
from dlblas.bench.copying import Copy, Helper
from dlblas.bench.timing import interleaved

if TYPE_CHECKING:
    from dlblas.bench.problems import Formula, Problem

Row = dict[str, Any]
COPIES = ("plain copy", "streamed copy")
# Bytes of the largest tensor in f32: below, a call's overhead dominates; above, eager torch takes
# too long.
_MIN, _MAX = 1 << 20, 300 << 20
_QUICK = 1 << 20  # elements: the oracle of more takes seconds, of some a minute
_SPIN_S = 0.003


class Bench(Protocol):
    """What a section needs of the bench."""

    quick: bool
    only: list[str]
    seconds: float
    rounds: int
    threads: int
    helpers: list[Helper]
    info: dict[str, Any]


def rows(bench: Bench) -> Iterator[Row]:
    if importlib.util.find_spec("torch") is None:
        missing = {"name": "dlblas", "missing": "torch is not installed"}
        yield {"what": "rows", "op": "", "problem": {}, "ours": missing, "peers": [], "ratio": None}
        return
    from dlblas.bench.problems import formula_of, problems_of

    for row in bench.info["operators"]:
        formula = formula_of(row) if not bench.only or row["name"] in bench.only else None
        if formula is None:
            continue
        problems = list(problems_of(row, "f32", "bf16"))
        fitting = [p for p in problems if _MIN <= p.elements() * 4 <= _MAX]
        quick = (p for p in problems if p.elements_of_all() < _QUICK)
        smallest = sorted(quick, key=lambda p: p.elements_of_all())[:1]
        for problem in smallest if bench.quick else fitting:
            yield _contest(bench, problem, formula)


def settle(run: Callable[[], Any], seconds: float = _SPIN_S) -> None:
    """Waits, then runs once untimed: OpenMP threads spin for milliseconds after their work."""
    time.sleep(seconds)
    run()


def _compiled(
    run: functools.partial[Any], formula: Formula
) -> tuple[Callable[[], Any] | None, str]:
    """``run`` with the formula compiled, or None and the reason why not."""
    import torch

    torch.compiler.reset()  # another problem is another program: no recompilation limit
    made = functools.partial(torch.compile(formula, dynamic=False), *run.args, **run.keywords)
    try:
        made()
    except Exception as error:  # no compiler, or a formula that it does not take
        return None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return made, ""


def _contest(bench: Bench, problem: Problem, formula: Formula) -> Row:
    import torch

    from dlblas.bench.problems import as_list, bytes_of, formula_scalars, make_tensor, run

    torch.set_num_threads(bench.threads)
    inputs = {name: make_tensor(problem, name, 1, "cpu")[0] for name in problem.specs}
    made = run(problem, inputs)
    outputs = as_list(made)
    named = {**inputs, **problem.scalars}
    call = dlblas.get_op(problem.op, (), kwargs=named, seconds=bench.seconds)
    into = {"out": made} if outputs else {}
    total = bytes_of(problem, outputs)
    # Allocated by torch like the operators' tensors: NumPy's memory has larger pages.
    source, to = (torch.ones(total // 2, dtype=torch.uint8).numpy() for _ in range(2))
    copies = [Copy([(to, source)], bench.threads, stream) for stream in (False, True)]
    eager = functools.partial(formula, **inputs, **formula_scalars(problem))
    with torch.no_grad():
        compiled, why = (None, "--quick") if bench.quick else _compiled(eager, formula)
        contestants: dict[str, Callable[[], Any]] = {
            "ours": functools.partial(call, **named, **into),
            "torch": eager,
            **({"inductor": compiled} if compiled else {}),
            **{
                name: functools.partial(copy.run, bench.helpers)
                for name, copy in zip(COPIES, copies, strict=True)
            },
        }
        settled = {n: functools.partial(settle, run) for n, run in contestants.items()}
        times = interleaved(contestants, bench.rounds, prepare=settled)
    best = min(COPIES, key=lambda kind: times[kind].min_ms)
    plan = call.explain().as_dict()
    ours = {"name": plan["implementation"], "config": plan["config"], **times["ours"].as_dict()}
    versions = dict.fromkeys(("torch", "inductor"), str(torch.__version__))
    versions |= dict.fromkeys(COPIES, "memmove")
    return {
        "what": "rows",
        "op": problem.op,
        "problem": problem.told(),
        "dtype": problem.dtype,
        "ours": ours,
        "peers": [
            {"name": n, "version": v, **(times[n].as_dict() if n in times else {"missing": why})}
            for n, v in versions.items()
        ],
        "against": best,
        "bytes": total,
        "ratio": times[best].min_ms / times["ours"].min_ms,
    }
