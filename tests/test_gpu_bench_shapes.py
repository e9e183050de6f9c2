"""Every operator at its benchmark shapes, with thousands of rows, in every dtype that the case
lists: each implementation's default is compared with the formula of peers.py, and the operator's
judge checks some of its rows, including integer results (ids, slots). One process per operator,
ended after two minutes: a kernel that never ends is a failure of its own.

A grid of thousands of blocks shows what the few rows of the cases do not: rows of one warp that
diverge (routers with f32 logits never ended), indices past one block, waits between blocks. Read
next: tests/test_cases.py, python/dlblas/bench/gpu_rows.py.
"""

from __future__ import annotations

import os
import subprocess
import sys

import dlblas
import pytest
from levels import ON_GPUS

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

LIMIT_S = 120
SCRIPT = """
import sys
import dlblas, torch
import dlblas.errors
from dlblas.bench import gpu_contest, gpu_rows, problems

row = next(r for r in dlblas.info()["operators"] if r["name"] == sys.argv[1])
formula = problems.formula_of(row)
MAX_ELEMENTS = 1 << 22  # elements that are judged whole; of more the formula alone


def there(result):
    return result is not None


def is_right(problem, tensors, got):
    first = {d["text"] for r in row["results"] for d in r["dims"][:1] or [{"text": ""}]}
    rows = None  # of no letter of rows: all of it
    if first <= {"T", "*T"}:
        count = problem.num_rows()
        rows = sorted({*range(0, count, max(1, count // 16)), count - 1})
    elif sum(g.numel() for g in filter(there, got)) > MAX_ELEMENTS:
        return True
    given = {**tensors, **problem.scalars}
    return dlblas.verify(problem.op, (), tuple(got), given, rows=rows)


ran = 0
for problem in problems.problems_of(row, "bf16", "f16", "f32"):
    tensors = {n: problems.make_tensor(problem, n, 1, "cuda")[0] for n in problem.specs}
    wanted = gpu_rows._reference(problem, formula, {n: t.clone() for n, t in tensors.items()})
    for made in row["implementations"]:
        if made["backend"] != "cuda" or made["oracle"]:
            continue
        given = {n: t.clone() for n, t in tensors.items()}
        try:
            with dlblas.pinned(problem.op, made["name"]):
                got = problems.as_list(problems.run(problem, given))
        except dlblas.errors.UnsupportedError:
            continue
        got += [given.get(t["name"]) for t in row["tensors"] if t["written"]]
        torch.cuda.synchronize()
        verdict = is_right(problem, tensors, got)
        if not verdict:
            sys.exit(f"{problem.op} {problem.told()} {problem.dtype} {made['name']}: {verdict}")
        off = [gpu_contest.wrong_by(g, w) for g, w in zip(filter(there, got), wanted)]
        if not max(off, default=0.0) <= 1:
            sys.exit(f"{problem.op} {problem.told()} {problem.dtype} {made['name']}: {max(off)}")
        ran += 1
    torch.cuda.empty_cache()
print("ran", ran)
"""


def _operators() -> list[str]:
    from dlblas.bench import problems

    rows = dlblas.info()["operators"]
    return [
        row["name"]
        for row in rows
        if row["name"] in ON_GPUS
        and problems.formula_of(row) is not None
        and any(problems.problems_of(row, "f32"))
    ]


@pytest.mark.parametrize("op", _operators())
def test_an_operator_at_its_bench_shapes(op: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, op],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) > 0, "no implementation ran"
