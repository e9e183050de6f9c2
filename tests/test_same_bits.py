"""``deterministic()``: a row has the same bits in any batch, on any number of threads, before and
after tuning, for every operator, at every level of instructions, on the CPU and the GPU.

Read next: src/core/implementation.hpp (``same_bits``), test_same_bits_parts.py (rows of groups,
sequences), test_matmul_sums.py.
"""

from __future__ import annotations

import functools
import math
import os
import pathlib
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dlblas
import numpy as np
import pytest
from depth import depth_of, some
from dlblas.harness import Case, abi, load_registry
from dlblas.harness.call import Call
from levels import ON_GPUS
from rooms import facts_of, kinds_of

DTYPES = ("f32", "f16", "bf16")
THREADS = (1, 2, 3, 5, 16, 64)
REGISTRY = load_registry()
OPERATORS = sorted(REGISTRY.operators)


def sizes_of(row: dict[str, Any]) -> int:
    return math.prod(math.prod(n) if isinstance(n, list) else n for n in row["dims"].values())


class Size(NamedTuple):
    """The rows that a problem may have, and an upper bound on the product of its other sizes."""

    rows: tuple[int, ...]
    most: int


FEW = Size((9, 17, 40, 130), 2**17)
MANY = Size((515,), 2**13)  # 512 and 3: past what is a tile, or a part of a sum, anywhere


class Problem:
    """One operator on the whole batch; ``run`` returns the results of some of its rows, and the
    written inputs, which count as results. Apart from the rows, sizes are those of the cases."""

    def __init__(
        self, op: str, seed: int, dtype: str, transposed: bool = False, size: Size = FEW
    ) -> None:
        pick = random.Random(seed)
        self.op, self.dtype = op, dtype
        facts = REGISTRY.operators[op]
        written = [t["name"] for t in facts["tensors"] if t["written"]]
        names = [row["name"] for row in facts["letters"]]
        firsts = [r["dims"][0]["text"] for r in facts["results"] if r["dims"]]
        letter = next((text for text in firsts if text in names), names[0])
        cases = [
            r for r in REGISTRY.rows
            if r["op"] == op and "test" in r["use"]
            and 0 < sizes_of({"dims": {**r["dims"], letter: 1}}) < size.most
        ]  # fmt: skip
        if not cases:
            raise LookupError(f"{op}: no case has so few elements a row")
        fit = [r for r in cases if dtype in r["dtypes"]]
        row, self.rows = pick.choice(fit or cases), pick.choice(size.rows)

        def call(rows: int) -> Call:
            dims = {**row["dims"], letter: rows}
            made_of = dtype if fit else row["dtypes"][0]
            case = Case(op, row["name"], dims, made_of, "contiguous", "normal", row["args"])
            return Call(REGISTRY, case, seed)

        try:
            calls = [call(self.rows), call(self.rows + 1)]  # what grows with it has rows
        except dlblas.errors.ShapeMismatchError:  # rows fill groups, as those of the case do
            own = row["dims"][letter]
            self.rows = own * -(-self.rows // own)
            calls = [call(self.rows), call(self.rows + own)]
        given, more = (call.before() for call in calls)
        has_rows = {n for n, v in given.items() if hasattr(v, "shape") and v.shape != more[n].shape}
        self.rowed = {n: given[n] for n in has_rows}
        self.shared = {n: v for n, v in given.items() if n not in has_rows}
        if transposed:
            for name, value in self.shared.items():
                if getattr(value, "ndim", 0) == 2 and name not in facts_of(op).as_made:
                    self.shared[name] = np.asfortranarray(value)
        self.results = [
            (r.array.shape, r.array.dtype, r.array.shape != s.array.shape)
            for r, s in zip(calls[0].results, calls[1].results, strict=True)
        ]
        fills = {t["name"]: t["fill"] for t in facts["tensors"]}
        # They say which rows belong together; a part of the batch would leave them out of range.
        self.has_groups = any(fills[n] in ("offsets", "lengths") for n in self.shared if n in fills)
        self.written = [name for name in written if name in given]
        # For each value of the reference: one row per row? None: a written input that is absent.
        self.judged = [rowed for _, _, rowed in self.results]
        self.judged += [name in has_rows if name in given else None for name in written]

    def __repr__(self) -> str:
        arrays = {**self.rowed, **self.shared}.items()
        shapes = {name: a.shape for name, a in arrays if hasattr(a, "shape")}
        return f"{self.op} {self.dtype} {shapes}"

    def run(self, first: int, count: int, threads: int) -> list[bytes]:
        given = {**self.of(first, count), **self.shared}
        given |= {name: given[name].copy() for name in self.written}
        results = [
            np.empty((count, *shape[1:]) if has_rows and count < self.rows else shape, dtype)
            for shape, dtype, has_rows in self.results
        ]
        abi.call(self.op, given, results, threads, deterministic=True)
        results += [given[name] for name in self.written]
        return self.of_rows(results, count, lambda r: r.tobytes())

    def of(self, first: int, count: int) -> dict[str, Any]:
        """The arguments that have rows, cut to some rows."""
        if count == self.rows:  # some may have several per row
            return self.rowed
        return {name: array[first : first + count] for name, array in self.rowed.items()}

    @property
    def has_rows_alone(self) -> bool:
        """Does every argument and result with rows have exactly one per row of the batch?"""
        shapes = [array.shape for array in self.rowed.values()]
        shapes += [shape for shape, _, rowed in self.results if rowed]
        return all(shape[0] == self.rows for shape in shapes)

    def of_rows(
        self, made: Sequence[Any], count: int, to_bytes: Callable[[Any], bytes]
    ) -> list[bytes]:
        """The results with one row per row of the batch (dweight, say, is of the whole batch). For
        a whole batch, the written inputs without rows follow: a cache, a state."""
        judged = [rowed for rowed in self.judged if rowed is not None]
        rowed = [to_bytes(m) for m, rows in zip(made, judged, strict=True) if rows]
        if count < self.rows:
            return rowed
        behind = zip(made[len(self.results) :], judged[len(self.results) :], strict=True)
        return rowed + [to_bytes(m) for m, rows in behind if not rows]

    @functools.cached_property
    def undefined(self) -> list[Any]:
        """For what ``of_rows`` returns: one truth value per byte, true where the reference does not
        define the element. Costs one reference of the whole batch."""
        rows = dlblas.reference(self.op, (), {**self.rowed, **self.shared})
        dtypes = [dtype for _, dtype, _ in self.results]
        dtypes += [{**self.rowed, **self.shared}[name].dtype for name in self.written]
        judged = [rowed for rowed in self.judged if rowed is not None]
        masks = [
            np.repeat(row.magnitude.reshape(-1) < 0, dtype.itemsize)
            for row, dtype in zip(rows, dtypes, strict=True)
        ]
        behind = zip(masks[len(self.results) :], judged[len(self.results) :], strict=True)
        return [m for m, rowed in zip(masks, judged, strict=True) if rowed] + [
            m for m, rowed in behind if not rowed
        ]

    def agree(self, part: list[bytes], whole: list[bytes], first: int = 0) -> bool:
        """Does ``part`` equal the whole's rows from ``first`` on, wherever they are defined?"""
        for r, (ours, every) in enumerate(zip(part, whole, strict=False)):
            at = first * (len(every) // self.rows)
            theirs = every[at : at + len(ours)]
            if ours == theirs:
                continue
            mask = self.undefined[r][at : at + len(ours)]
            if Call.blank(ours, mask) != Call.blank(theirs, mask):
                return False
        return True

    def counts(self) -> tuple[int, ...]:
        """Numbers of rows in the parts that are compared with the whole batch."""
        if not rows_are_apart(self.op):
            return (self.rows,)
        return (1, 2, 3, 7, 8, 9, self.rows // 2, self.rows - 1, self.rows)

    def check(self, whole: list[bytes], pick: random.Random, times: int, when: str) -> None:
        for _ in range(times):
            count = pick.choice(self.counts())
            first, threads = pick.randrange(self.rows - count + 1), pick.choice(THREADS)
            assert self.agree(self.run(first, count, threads), whole, first), (
                f"{self!r}: {count} rows from {first} on {threads} threads, {when}"
            )

    def tune(self, count: int, seconds: float) -> Any:
        args = self.of(0, count if rows_are_apart(self.op) else self.rows)
        return dlblas.tune(self.op, (), kwargs={**args, **self.shared}, seconds=seconds)


@functools.cache
def rows_are_apart(op: str) -> bool:
    """Does the oracle give a row the same result alone as among others? It does not where a scale
    spans rows."""
    for seed in range(3, 7):  # a table of one row, say, is the same for every position
        problem = Problem(op, seed, "f32")
        if problem.has_groups or not problem.has_rows_alone:
            return False
        whole = dlblas.reference(op, (), {**problem.rowed, **problem.shared})
        for row in (0, problem.rows // 2, problem.rows - 1):
            one = {name: value[row : row + 1] for name, value in problem.rowed.items()}
            alone = dlblas.reference(op, (), {**one, **problem.shared})
            judged = [rowed for rowed in problem.judged if rowed is not None]
            for all_rows, part, rowed in zip(whole, alone, judged, strict=True):
                if rowed and not np.array_equal(
                    part.value, all_rows.value[row : row + 1], equal_nan=True
                ):
                    return False
    return True


TIMES = 12
SEEDS = some(range(40), 8)


def sweep(seeds: Sequence[int], times: int = TIMES) -> None:
    for op in OPERATORS:
        for seed in seeds:
            pick = random.Random(f"{op} {seed}")
            problem = Problem(op, seed, pick.choice(DTYPES), pick.random() < 0.3)
            whole = problem.run(0, problem.rows, 1)
            problem.check(whole, pick, times, "untuned")


def test_random_problems(attacked: Callable[..., None]) -> None:
    sweep(SEEDS)
    attacked("the same bits in any batch, on any threads", len(OPERATORS) * len(SEEDS) * TIMES)


def test_many_rows(attacked: Callable[..., None]) -> None:
    """One problem per operator, by the seed, for every operator that has a case with short rows."""
    drawn, without = 0, []
    for op in OPERATORS:
        pick = random.Random(f"{op} {depth_of().seed}")
        try:
            problem = Problem(op, pick.randrange(1 << 30), pick.choice(DTYPES), size=MANY)
        except LookupError:
            without.append(op)
            continue
        whole = problem.run(0, problem.rows, 1)
        problem.check(whole, pick, TIMES, "untuned")
        drawn += TIMES
    assert len(without) < len(OPERATORS) // 10, without
    attacked("the same bits in any batch, on any threads", drawn)


def run_at_level(program: str, isa: str) -> None:
    """Runs the program in its own process at this instruction set."""
    here = str(pathlib.Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "DLBLAS_CPU_ISA": isa, "PYTHONPATH": os.pathsep.join([here, *sys.path])},
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_every_level(isa: str) -> None:
    program = f"from test_same_bits import sweep; sweep({some(range(100, 112), 4, isa)})"
    run_at_level(program, isa)


@pytest.mark.parametrize("op", OPERATORS)
def test_before_and_after_tuning(op: str) -> None:
    pick = random.Random(op)
    with dlblas.deterministic():
        for seed in some((1, 2, 3), 1, op):
            problem = Problem(op, seed, pick.choice(DTYPES))
            whole = problem.run(0, problem.rows, 1)
            for count in (1, 8, problem.rows):
                report = problem.tune(count, 0.3)
                assert report.winner
            problem.check(whole, pick, 12, "tuned")


@pytest.mark.parametrize("op", OPERATORS)
def test_all_that_serve_agree(op: str) -> None:
    """Implementations that may be chosen, in configurations that the search may try."""
    pick = random.Random(op)
    with dlblas.deterministic():
        for seed in some((11, 12, 13), 1, op):
            problem = Problem(op, seed, "f32" if seed == 11 else "f16")
            whole = problem.run(0, problem.rows, 1)
            report = problem.tune(problem.rows, 0.4)
            tried = [(e["implementation"], e["config"]) for e in report.evaluated]
            assert tried
            for name, config in pick.sample(tried, min(25, len(tried))):
                with dlblas.pinned(op, name, None if config == "default" else config):
                    found = problem.run(0, problem.rows, 2)
                    assert problem.agree(found, whole), (repr(problem), name, config)


def test_a_pin_may_be_of_any_level_and_configuration() -> None:
    x, w = np.ones((4, 64), np.float32), np.ones(64, np.float32)
    with dlblas.deterministic(), dlblas.pinned("rms_norm", "cpu_baseline"):
        knobs = "store=streamed prefetch=next_row task_kib=16"
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
                (np.ones((8, 64), np.float32), np.ones(64, np.float32)),
                seconds=0.2,
                implementations=["reference"],
            )
    levels = [r for r in report.candidates if r["implementation"].startswith("cpu_")]
    taking_part = [r["implementation"] for r in levels if r["takes_part"]]
    assert len(taking_part) == 1
    reasons = [r["reason"] for r in levels if not r["takes_part"]]
    assert any("other bits" in reason for reason in reasons) or len(levels) == 1


def specs(given: dict[str, Any]) -> dict[str, Any]:
    tensors = {n: v for n, v in given.items() if hasattr(v, "dtype")}
    return {**given, **{n: dlblas.Spec(v.shape, v.dtype.name) for n, v in tensors.items()}}


def on_a_gpu(op: str, given: dict[str, Any]) -> list[str]:
    told = dlblas.explain(op, **given, device="sm_90a").as_dict()
    names = [row["implementation"] for row in told["candidates"] if row["supports"]]
    return [name for name in names if not name.startswith("cpu")]


@pytest.mark.parametrize("op", OPERATORS)
def test_one_implementation_serves_on_a_gpu(op: str) -> None:
    """GPU implementations with the same bits for any batch; estimates choose by its size."""
    for seed in range(5):
        problem = Problem(op, seed, DTYPES[seed % len(DTYPES)], transposed=seed == 1, size=FEW)
        serving: list[str] = []
        plain: list[str] = []  # some problems have no implementation there
        for count in {1, problem.rows} if rows_are_apart(op) else {problem.rows}:
            given = specs({**problem.of(0, count), **problem.shared})
            plain += on_a_gpu(op, given)
            with dlblas.deterministic():
                serving += on_a_gpu(op, given)
        assert facts_of(op).exact or len(kinds_of(op, serving)) == bool(plain), (
            repr(problem),
            serving,
        )


def to_bytes(result: Any) -> bytes:
    """A tensor's elements in order, whatever its strides (0 where it is broadcast)."""
    import torch

    packed = torch.empty(result.shape, dtype=result.dtype, device=result.device).copy_(result)
    return bytes(packed.reshape(-1).view(torch.uint8).cpu().numpy().tobytes())


def test_bytes_of_any_strides() -> None:
    torch = pytest.importorskip("torch")
    row = torch.arange(6, dtype=torch.bfloat16)
    for view in (row.reshape(2, 3).T, row[1:4, None].expand(3, 4), row[::2], row[3], row[:0]):
        assert to_bytes(view) == view.contiguous().float().numpy().astype("bfloat16").tobytes()


@pytest.mark.gpu
@pytest.mark.attack("the same bits, on a GPU")
@pytest.mark.parametrize("op", ON_GPUS)
def test_on_a_gpu(op: str) -> None:
    torch = pytest.importorskip("torch")
    pick = random.Random(op)
    function = getattr(dlblas, op)
    try:
        Problem(op, 11, "bf16", size=MANY)
        many = MANY
    except LookupError:  # no case has short rows
        many = FEW

    def run(problem: Problem, tensors: dict[str, Any], first: int, count: int) -> list[bytes]:
        every = count == problem.rows
        rowed = {n: tensors[n] if every else tensors[n][first : first + count]
                 for n in problem.rowed}  # fmt: skip
        shared = {n: tensors.get(n, v) for n, v in problem.shared.items()}
        given = {**rowed, **shared}
        given |= {n: given[n].clone() for n in problem.written}
        made = function(**given)
        results = list(made) if isinstance(made, tuple) else [made]
        results = results[: len(problem.results)] + [given[n] for n in problem.written]
        return problem.of_rows(results, count, to_bytes)

    def check(problem: Problem, tensors: dict[str, Any], whole: list[bytes], when: str) -> None:
        for count in problem.counts():
            first = pick.randrange(problem.rows - count + 1)
            assert problem.agree(run(problem, tensors, first, count), whole, first), (
                f"{problem!r}: {count} rows from {first}, {when}"
            )

    with dlblas.deterministic():
        for seed in range(12):
            dtype = ("f32", "f16", "bf16")[seed % 3]
            size = many if seed == 11 else FEW
            problem = Problem(op, seed, dtype, transposed=seed % 2 == 0, size=size)
            arrays = {**problem.rowed, **problem.shared}
            tensors = {
                n: torch.from_numpy(np.ascontiguousarray(a.T).astype(np.float32))
                .to("cuda", getattr(torch, a.dtype.name))
                .T
                if a.ndim == 2 and a.flags.f_contiguous and not a.flags.c_contiguous
                else torch.from_numpy(a).to("cuda")
                if a.dtype.kind == "i"
                else torch.from_numpy(np.ascontiguousarray(a).astype(np.float32)).to(
                    "cuda", getattr(torch, a.dtype.name)
                )
                for n, a in arrays.items()
                if hasattr(a, "dtype")
            }
            whole = run(problem, tensors, 0, problem.rows)
            check(problem, tensors, whole, "untuned")
            if seed < 2:
                for count in (1, problem.rows) if rows_are_apart(op) else (problem.rows,):
                    given = {**problem.shared, **tensors}
                    if count < problem.rows:
                        given |= {n: tensors[n][:count] for n in problem.rowed}
                    dlblas.tune(op, (), kwargs=given, seconds=1)
                found = run(problem, tensors, 0, problem.rows)
                assert problem.agree(found, whole), f"{problem!r}: tuned"
                check(problem, tensors, whole, "tuned")
