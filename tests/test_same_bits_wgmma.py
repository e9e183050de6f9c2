"""``cuda_wgmma`` and ``cuda_mma`` have the same bits inside ``deterministic()``, so that either may
serve a batch: f16 and bf16 products of every operator whose facts say so (`alike`), at every
case of its cases.json that both take, and tiles of every kind within one product.

Read next: test_same_bits.py, ops/gemm/matmul/cuda/matmul_wgmma_cuda.cpp (``same_bits``).
"""

from __future__ import annotations

import contextlib
import csv
import pathlib
from collections.abc import Iterator
from typing import Any

import dlblas
import dlblas.errors
import pytest
from dlblas import _specs
from rooms import facts_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

ROWS = {row["name"]: row for row in dlblas.info()["operators"]}
PAIR = ("cuda_wgmma", "cuda_mma")
LARGEST = 1 << 25  # elements of one tensor


def _problems(row: dict[str, Any]) -> Iterator[Any]:
    from dlblas.bench import problems

    seen = set()
    for use in ("test", "bench"):
        for case in _specs.cases(row, use):
            if case["name"] in seen:
                continue
            seen.add(case["name"])
            for dtype in ("f16", "bf16"):
                if dtype not in case["dtypes"]:
                    continue
                args = case.get("args", {})
                names = {tensor["name"] for tensor in row["tensors"]}
                dtypes = {"": dtype, **{n: d for n, d in args.items() if isinstance(d, str)}}
                known = {n: d for n, d in dtypes.items() if n in names or not n}
                specs = _specs.tensor_specs(row, case["dims"], known, args)
                scalars = {n: v for n, v in args.items() if n not in names}
                sizes = _specs.size_arguments(row, case["dims"])
                made = problems.Problem(row, case, dtype, specs, {**scalars, **sizes})
                if 0 < made.elements_of_all() <= LARGEST:
                    yield made


def _bits(made: Any) -> list[Any]:
    results = made if isinstance(made, tuple) else (made,)
    wide = {1: torch.int8, 2: torch.int16, 4: torch.int32}
    return [r.contiguous().view(wide[r.element_size()]) for r in results]


def _zeros(function: Any, given: dict[str, Any], scalars: dict[str, Any]) -> Any:
    """Results to fill: rows past those of a group are not written."""
    made = function(**given, **scalars)
    many = isinstance(made, tuple)
    zeros = tuple(torch.zeros_like(r) for r in (made if many else (made,)))
    return zeros if many else zeros[0]


@pytest.mark.parametrize("op", [name for name in ROWS if set(facts_of(name).alike) == set(PAIR)])
def test_both_forms_have_the_same_bits(op: str) -> None:
    from dlblas.bench import problems

    torch.manual_seed(5)
    function, compared = getattr(dlblas, op), 0
    for problem in _problems(ROWS[op]):
        given = {n: problems.make_tensor(problem, n, 1, "cuda")[0] for n in problem.specs}
        found = []
        with dlblas.deterministic():
            for name in PAIR:
                with contextlib.suppress(dlblas.errors.UnsupportedError), dlblas.pinned(op, name):
                    out = _zeros(function, given, problem.scalars)
                    found.append(_bits(function(**given, **problem.scalars, out=out)))
        if len(found) < 2:
            continue
        compared += 1
        for one, other in zip(*found, strict=True):
            assert torch.equal(one, other), f"{op} {problem.case['name']} {problem.dtype}"
    assert compared >= 4, "too few cases that both forms take"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("out", [None, torch.float32])
def test_tiles_of_every_kind(dtype: Any, out: Any, tmp_path: pathlib.Path) -> None:
    """Values of many magnitudes, so that another order of sums shows; tiles that a search finds."""
    torch.manual_seed(6)
    m, n, k = 500, 1536, 2304
    a = torch.randn(m, k, device="cuda") * torch.exp2(torch.randint(-6, 7, (m, k), device="cuda"))
    b = torch.randn(n, k, device="cuda")
    a, b = a.to(dtype), b.to(dtype).T
    more = {} if out is None else {"out_dtype": out}
    tiles = set()
    with dlblas.deterministic():
        with dlblas.pinned("matmul", "cuda_mma"):
            wanted = _bits(dlblas.matmul(a, b, **more))[0]
        for rows in (m, 300, 130, 64, 16, 3):
            some = a[:rows].contiguous()
            log = tmp_path / f"{rows}.csv"
            dlblas.get_op(
                "matmul", (some, b), kwargs=more, implementations=[PAIR[0]], max_evaluations=8,
                strategy="random", seed=rows, progress=False, log=str(log),
            )  # fmt: skip
            measured = csv.DictReader(log.read_text().splitlines())
            for config in {row["config"] for row in measured if row["ms"]}:
                with dlblas.pinned("matmul", PAIR[0], config):
                    made = _bits(dlblas.matmul(some, b, **more))[0]
                assert torch.equal(made, wanted[:rows]), f"{rows} rows: {config}"
                tiles.add(config)
    assert len(tiles) >= 8
