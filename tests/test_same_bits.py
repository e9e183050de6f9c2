"""``deterministic()``: a row has the same bits in any batch, on any number of threads, before and
after tuning, for every operator, at every level of instructions, on the CPU and the GPU.

Read next: src/core/implementation.hpp (``same_bits``), test_matmul_sums.py.
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest
from dlblas.harness import abi, load_registry

DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
THREADS = (1, 2, 3, 5, 16, 64)
# Operators of rows alone: their tensors, the result last, and how many widths each is wide.
ROWS = {
    "silu_and_mul": {"x": 2, "y": 1},
    "silu_and_mul_backward": {"dy": 1, "x": 2, "dx": 2},
    "softmax": {"x": 1, "y": 1},
}


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    return rng.standard_normal(shape, dtype=np.float32).astype(DTYPES[dtype])


class Problem:
    """One operator on the most rows; ``run`` gives the results of some of them."""

    def __init__(self, op: str, seed: int, dtype: str, transposed: bool = False) -> None:
        rng, pick = np.random.default_rng(seed), random.Random(seed)
        self.op, self.dtype = op, dtype
        self.rows = pick.choice((9, 17, 40, 130))
        width = pick.choice((1, 5, 31, 64, 257, 1000, 4096, 4999))
        self.shared: dict[str, Any] = {}
        if op == "matmul":
            width = pick.choice((1, 8, 64, 130, 300, 1024, 2056, 9000))
            n = pick.choice((1, 3, 8, 9, 40, 64, 200))
            b = draw(rng, (n, width), dtype).T if transposed else draw(rng, (width, n), dtype)
            self.rowed = {"a": draw(rng, (self.rows, width), dtype)}
            self.shared = {"b": b, "activation": pick.choice(("", "gelu", "silu"))}
            self.widths = [n]
        elif op in ROWS:
            width = pick.choice((width, width, 40000))  # from 16,384 on softmax keeps no row
            *parts, result = ROWS[op].items()
            self.rowed = {n: draw(rng, (self.rows, k * width), dtype) for n, k in parts}
            self.widths = [result[1] * width]
        else:
            names = {"rms_norm": ("x",), "add_rms_norm": ("x", "residual")}.get(op, ("dy", "x"))
            self.rowed = {name: draw(rng, (self.rows, width), dtype) for name in names}
            self.shared = {"weight": draw(rng, (width,), dtype)}
            self.widths = [width] * (1 if op == "rms_norm" else 2)

    def __repr__(self) -> str:
        arrays = {**self.rowed, **self.shared}.items()
        shapes = {name: a.shape for name, a in arrays if hasattr(a, "shape")}
        return f"{self.op} {self.dtype} {shapes}"

    def run(self, first: int, count: int, threads: int) -> list[bytes]:
        rowed = {name: array[first : first + count] for name, array in self.rowed.items()}
        dtype = DTYPES[self.dtype]
        results = [np.empty((count, w), dtype) for w in self.widths]
        if self.op == "rms_norm_backward":  # dweight is of the whole batch
            results[1] = np.empty(self.widths[1], dtype)
        abi.call(self.op, {**rowed, **self.shared}, results, threads, deterministic=True)
        return [r.tobytes() for r in results if r.ndim == 2]

    def check(self, whole: list[bytes], pick: random.Random, times: int, when: str) -> None:
        for _ in range(times):
            count = pick.choice((1, 2, 3, 7, 8, self.rows // 2, self.rows - 1, self.rows))
            first, threads = pick.randrange(self.rows - count + 1), pick.choice(THREADS)
            for r, part in enumerate(self.run(first, count, threads)):
                row = len(whole[r]) // self.rows
                assert part == whole[r][first * row : (first + count) * row], (
                    f"{self!r}: {count} rows from {first} on {threads} threads, {when}"
                )

    def tune(self, count: int, seconds: float) -> Any:
        args = {name: array[:count] for name, array in self.rowed.items()}
        kwargs = {**args, **self.shared}
        order = {
            "matmul": ("a", "b", "activation"),
            "rms_norm": ("x", "weight"),
            "add_rms_norm": ("x", "weight", "residual"),
            "rms_norm_backward": ("dy", "x", "weight"),
        }.get(self.op, tuple(self.rowed))
        return dlblas.tune(self.op, tuple(kwargs[name] for name in order), seconds=seconds)


BUILT_IN = set(load_registry().operators)
OPERATORS = ("matmul", "rms_norm", "add_rms_norm", "rms_norm_backward", *ROWS)


def test_every_operator_is_here() -> None:
    assert set(OPERATORS) == BUILT_IN


TIMES = 12
# tools/reliability.py asks for more of them.
SEEDS = 100 if os.environ.get("DLBLAS_ATTACKS") == "whole" else 40


def sweep(seeds: range, times: int = TIMES) -> None:
    for op in OPERATORS:
        for seed in seeds:
            pick = random.Random(f"{op} {seed}")
            problem = Problem(op, seed, pick.choice(tuple(DTYPES)), pick.random() < 0.3)
            whole = problem.run(0, problem.rows, 1)
            problem.check(whole, pick, times, "untuned")


def test_random_problems(attacked: Callable[..., None]) -> None:
    sweep(range(SEEDS))
    attacked("the same bits in any batch, on any threads", len(OPERATORS) * SEEDS * TIMES)


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_every_level(isa: str) -> None:
    program = "from test_same_bits import sweep; sweep(range(100, 112))"
    here = str(pathlib.Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "DLBLAS_CPU_ISA": isa, "PYTHONPATH": os.pathsep.join([here, *sys.path])},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("op", OPERATORS)
def test_before_and_after_tuning(op: str) -> None:
    pick = random.Random(op)
    with dlblas.deterministic():
        for seed in (1, 2, 3):
            problem = Problem(op, seed, pick.choice(tuple(DTYPES)))
            whole = problem.run(0, problem.rows, 1)
            for count in (1, 8, problem.rows):
                report = problem.tune(count, 0.3)
                assert report.winner
            problem.check(whole, pick, 12, "tuned")


@pytest.mark.parametrize("op", OPERATORS)
def test_all_that_serve_agree(op: str) -> None:
    """Each implementation that may be chosen, in each configuration that the search may try."""
    pick = random.Random(op)
    with dlblas.deterministic():
        for seed in (11, 12, 13):
            problem = Problem(op, seed, "f32" if seed == 11 else "f16")
            whole = problem.run(0, problem.rows, 1)
            report = problem.tune(problem.rows, 0.4)
            tried = [(e["implementation"], e["config"]) for e in report.evaluated]
            assert tried
            for name, config in pick.sample(tried, min(25, len(tried))):
                with dlblas.pinned(op, name, None if config == "default" else config):
                    assert problem.run(0, problem.rows, 2) == whole, (repr(problem), name, config)


def test_a_pin_may_be_of_any_level_and_configuration() -> None:
    x, w = np.ones((4, 64), np.float32), np.ones(64, np.float32)
    with dlblas.deterministic(), dlblas.pinned("rms_norm", "cpu_baseline"):
        knobs = "unroll=4 source=row store=cached prefetch=none task_kib=64"
        dlblas.rms_norm(x, w)
        with dlblas.pinned("rms_norm", "cpu_baseline", knobs):
            dlblas.rms_norm(x, w)


def test_tune_leaves_out_what_has_other_bits() -> None:
    problem = Problem("rms_norm", 1, "f32")
    with dlblas.deterministic():
        report = problem.tune(8, 0.2)
        with pytest.raises(dlblas.Error, match=r"leaves nothing|leaves none"):
            dlblas.tune(
                "rms_norm",
                (problem.rowed["x"], problem.shared["weight"]),
                seconds=0.2,
                implementations=["reference"],
            )
    levels = [r for r in report.candidates if r["implementation"].startswith("cpu_")]
    taking_part = [r["implementation"] for r in levels if r["takes_part"]]
    assert len(taking_part) == 1
    reasons = [r["reason"] for r in levels if not r["takes_part"]]
    assert any("other bits" in reason for reason in reasons) or len(levels) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("op", OPERATORS)
def test_on_a_gpu(op: str) -> None:
    torch = pytest.importorskip("torch")
    types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    pick = random.Random(op)
    function = getattr(dlblas, op)

    def run(problem: Problem, tensors: dict[str, Any], first: int, count: int) -> list[bytes]:
        rowed = {n: tensors[n][first : first + count] for n in problem.rowed}
        shared = {n: tensors.get(n, v) for n, v in problem.shared.items()}
        results = function(**rowed, **shared)
        results = results if isinstance(results, tuple) else (results,)
        return [r.view(torch.uint8).cpu().numpy().tobytes() for r in results if r.ndim == 2]

    def check(problem: Problem, tensors: dict[str, Any], whole: list[bytes], when: str) -> None:
        for count in (1, 2, 3, 8, 9, problem.rows // 2, problem.rows - 1):
            first = pick.randrange(problem.rows - count + 1)
            for r, part in enumerate(run(problem, tensors, first, count)):
                row = len(whole[r]) // problem.rows
                assert part == whole[r][first * row : (first + count) * row], (
                    f"{problem!r}: {count} rows from {first}, {when}"
                )

    with dlblas.deterministic():
        for seed in range(12):
            dtype = ("f32", "f16", "bf16")[seed % 3]
            problem = Problem(op, seed, dtype, transposed=seed % 2 == 0)
            arrays = {**problem.rowed, **problem.shared}
            tensors = {
                n: torch.from_numpy(np.ascontiguousarray(a.T).astype(np.float32))
                .to("cuda", types[dtype])
                .T
                if a.ndim == 2 and a.flags.f_contiguous and not a.flags.c_contiguous
                else torch.from_numpy(np.ascontiguousarray(a).astype(np.float32)).to(
                    "cuda", types[dtype]
                )
                for n, a in arrays.items()
                if hasattr(a, "dtype")
            }
            whole = run(problem, tensors, 0, problem.rows)
            check(problem, tensors, whole, "untuned")
            if seed < 3:
                names = [n for n in ("a", "dy", "x", "b", "weight", "residual") if n in tensors]
                for count in (1, problem.rows):
                    args = tuple(
                        tensors[n][:count] if n in problem.rowed else tensors[n] for n in names
                    )
                    extra = {k: v for k, v in problem.shared.items() if k not in tensors}
                    dlblas.tune(op, args, kwargs=extra, seconds=3)
                assert run(problem, tensors, 0, problem.rows) == whole, f"{problem!r}: tuned"
                check(problem, tensors, whole, "tuned")
