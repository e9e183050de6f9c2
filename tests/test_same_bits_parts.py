"""``deterministic()`` for rows that are not rows of every argument: a row of a group has the same
bits whatever else the group holds, a sequence whatever others come with it, and a token of a
function composed of several operators, alone or among others. On the CPU, at every level; the same
code runs on a GPU.

Read next: batch_parts.py (how a batch is cut), test_same_bits.py (rows that are apart).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import dlblas
import numpy as np
import pytest
from batch_parts import Cut, kept, part_of
from depth import some
from dlblas.harness import Case, abi
from dlblas.harness.call import Call
from rooms import facts_of, kinds_of
from test_same_bits import (
    OPERATORS,
    REGISTRY,
    THREADS,
    rows_are_apart,
    run_at_level,
    sizes_of,
    specs,
)  # fmt: skip

MAX_WORK = 2**21  # below it the letters' product: a reference takes a second
CUTS = 8
CUTTERS = {op: parts for op in OPERATORS if callable(parts := facts_of(op).parts)}


def bits_of(array: Any) -> Any:
    if not isinstance(array, np.ndarray):  # a tensor of torch
        import torch

        sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        return array.contiguous().view(sizes[array.element_size()]).cpu().numpy()
    return np.ascontiguousarray(array).view(f"i{array.itemsize}")


class Batch:
    """One case of an operator, uncut."""

    def __init__(self, op: str, row: dict[str, Any], dtype: str, seed: int) -> None:
        self.op, self.facts = op, REGISTRY.operators[op]
        self.name = f"{op} {row['name']} {dtype}"
        case = Case(op, row["name"], row["dims"], dtype, "contiguous", "normal", row["args"])
        call = Call(REGISTRY, case, seed)
        self.given = call.before()
        self.results = [(r.array.shape, r.array.dtype) for r in call.results]
        self.written = [t["name"] for t in self.facts["tensors"] if t["written"]]
        self.there = [name for name in self.written if name in self.given]
        self.dims = {t["name"]: [d["text"] for d in t["dims"]] for t in self.facts["tensors"]}
        of_results = [[d["text"] for d in r["dims"]] for r in self.facts["results"]]
        self.judged = of_results + [self.dims[name] for name in self.there]
        self._undefined: list[Any] | None = None

    @property
    def can_be_cut(self) -> bool:
        return CUTTERS[self.op](self.given, random.Random(0)) is not None

    def cut(self, pick: random.Random) -> tuple[Cut, dict[str, Any]]:
        made = CUTTERS[self.op](self.given, pick)
        assert made is not None, self.name
        return made, part_of(self.given, self.dims, made)

    def shapes(self, cut: Cut | None) -> list[tuple[int, ...]]:
        whole = [np.broadcast_to(np.empty((), "i1"), shape) for shape, _ in self.results]
        if cut is None:
            return [array.shape for array in whole]
        return [kept(a, d, cut).shape for a, d in zip(whole, self.judged, strict=False)]

    def run(self, given: dict[str, Any], cut: Cut | None, threads: int) -> list[Any]:
        given = {**given, **{name: given[name].copy() for name in self.there}}
        made = [
            np.zeros(shape, dtype)
            for shape, (_, dtype) in zip(self.shapes(cut), self.results, strict=True)
        ]
        abi.call(self.op, given, made, threads, deterministic=True)
        return [bits_of(a) for a in (*made, *(given[name] for name in self.there))]

    def undefined(self) -> list[Any]:
        """For each judged element of the whole: does the reference leave it undefined?"""
        if self._undefined is None:
            rows = dlblas.reference(self.op, (), self.given)
            self._undefined = [
                (row.magnitude < 0).reshape(row.value.shape) for row in rows if row is not None
            ]
        return self._undefined

    def differ(self, part: list[Any], whole: list[Any], cut: Cut) -> bool:
        for r, (ours, every, dims) in enumerate(zip(part, whole, self.judged, strict=True)):
            theirs = kept(every, dims, cut)
            if np.array_equal(ours, theirs):
                continue
            hidden = kept(self.undefined()[r].reshape(every.shape), dims, cut)
            if (ours != theirs)[~hidden].any():
                return True
        return False


def cases_of(op: str) -> list[tuple[dict[str, Any], str]]:
    return [
        (row, dtype)
        for row in REGISTRY.rows
        if row["op"] == op and "test" in row["use"] and 0 < sizes_of(row) < MAX_WORK
        for dtype in row["dtypes"]
    ]


def batches(op: str, count: int, seed: int) -> list[tuple[Batch, random.Random]]:
    """Batches that can be cut, from some of the operator's cases."""
    pick, made = random.Random(f"{op} {seed}"), []
    cases = cases_of(op)
    pick.shuffle(cases)
    for row, dtype in cases:
        batch = Batch(op, row, dtype, seed)
        if batch.can_be_cut:
            made.append((batch, pick))
        if len(made) == count:
            break
    assert made, f"{op}: no case can be cut"
    return made


def test_every_operator_is_cut_somewhere() -> None:
    """By rows (test_same_bits.py), here, or nowhere with a reason: "parts" of TESTS (rooms.py)."""
    without = [op for op in OPERATORS if not rows_are_apart(op) and op not in CUTTERS]
    assert without == [op for op in OPERATORS if isinstance(facts_of(op).parts, str)]


@pytest.mark.parametrize("op", sorted(CUTTERS))
def test_a_cut_keeps_what_the_oracle_says(op: str) -> None:
    """Otherwise the tests below would require what no implementation promises."""
    for batch, pick in batches(op, 3, 1):
        whole = [row for row in dlblas.reference(op, (), batch.given) if row is not None]
        for _ in range(2):
            cut, given = batch.cut(pick)
            part = [row for row in dlblas.reference(op, (), given) if row is not None]
            for ours, theirs, dims in zip(part, whole, batch.judged, strict=True):
                hidden = kept(theirs.magnitude.reshape(theirs.value.shape) < 0, dims, cut)
                expected = np.where(hidden, 0, kept(theirs.value, dims, cut))
                got = np.where(hidden, 0, ours.value)
                np.testing.assert_allclose(got, expected, 1e-9, 1e-9, err_msg=f"{batch.name} {cut}")


def sweep(count: int, seeds: Sequence[int]) -> int:
    tried = 0
    for op in sorted(CUTTERS):
        for seed in seeds:
            for batch, pick in batches(op, count, seed):
                whole = batch.run(batch.given, None, 1)
                for _ in range(CUTS):
                    cut, given = batch.cut(pick)
                    found = batch.run(given, cut, pick.choice(THREADS))
                    assert not batch.differ(found, whole, cut), f"{batch.name}: {cut.words}"
                    tried += 1
    return tried


@pytest.mark.parametrize("seed", some(range(8), 2))
def test_random_parts(seed: int, attacked: Callable[..., None]) -> None:
    attacked("the same bits in parts of groups and batches", sweep(6, [seed]))


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_every_level(isa: str) -> None:
    program = f"from test_same_bits_parts import sweep; sweep(3, {some(range(100, 112), 1, isa)})"
    run_at_level(program, isa)


@pytest.mark.parametrize("op", sorted(CUTTERS))
def test_parts_before_and_after_tuning(op: str) -> None:
    """Also in configurations that the search may try."""
    with dlblas.deterministic():
        for batch, pick in batches(op, 1, 2):
            whole = batch.run(batch.given, None, 1)
            pins: list[tuple[str, str] | None] = [None] * CUTS
            for given in (batch.cut(pick)[1], batch.given):
                report = dlblas.tune(op, (), kwargs=given, seconds=0.2)
                assert report.winner
                tried = [(e["implementation"], e["config"]) for e in report.evaluated]
            pins += pick.sample(tried, min(CUTS, len(tried)))
            for pin in pins:
                cut, given = batch.cut(pick)
                with contextlib.ExitStack() as pinned:
                    if pin:
                        config = None if pin[1] == "default" else pin[1]
                        pinned.enter_context(dlblas.pinned(op, pin[0], config))
                    found = batch.run(given, cut, pick.choice(THREADS))
                assert not batch.differ(found, whole, cut), f"{batch.name}: {cut.words}, {pin}"


@pytest.mark.parametrize("op", sorted(CUTTERS))
def test_one_implementation_serves_parts_on_a_gpu(op: str) -> None:
    """Estimates choose by the batch's size, here only among those with the same bits."""
    for batch, pick in batches(op, 4, 3):
        serving: list[str] = []
        for given in (batch.given, *(batch.cut(pick)[1] for _ in range(3))):
            with dlblas.deterministic():
                told = dlblas.explain(op, **specs(given), device="sm_90a").as_dict()
            serving += [
                row["implementation"]
                for row in told["candidates"]
                if row["supports"] and not row["implementation"].startswith("cpu")
            ]
        assert facts_of(op).exact or len(kinds_of(op, serving)) == 1, (batch.name, serving)


# Functions composed of several operators, with rows along the first dimension: name -> (call,
# arguments with one row per token, arguments that all tokens share).
def composed(rng: np.random.Generator, tokens: int) -> dict[str, tuple[Any, Any, Any]]:
    def draw(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    c, f, e, k = 160, 96, 5, 2
    x = draw(tokens, c)
    ids = np.argsort(rng.random((tokens, e)), axis=1)[:, :k].astype(np.int32)
    weights = rng.random((tokens, k), dtype=np.float32)
    routed = {"topk_weights": weights, "topk_ids": ids}
    experts = {"w13": draw(e, 2 * f, c) / 8, "w2": draw(e, c, f) / 8}
    columns = [np.asfortranarray(draw(c, f)), np.asfortranarray(draw(c, f))]
    gates = {"gate_weight": columns[0].T, "up_weight": columns[1].T}
    return {
        "fused_moe": (dlblas.fused_moe, {"x": x, **routed}, experts),
        "fused_gated_mlp": (dlblas.fused_gated_mlp, {"x": x}, gates),
        "linear": (dlblas.linear, {"x": x}, {"weight": draw(f, c)}),
        "rms_norm_linear": (
            dlblas.rms_norm_linear, {"x": x}, {"rms_w": draw(c), "weight": draw(f, c)},
        ),
        "cross_entropy": (
            lambda logits, target: dlblas.cross_entropy(logits, target, reduction="none"),
            {"logits": x, "target": ids[:, 0]}, {},
        ),
    }  # fmt: skip


def check_composed(to_device: Callable[[Any], Any], tokens: int) -> None:
    pick = random.Random(tokens)
    for dtype in ("float32", "float16", "bfloat16"):
        made = composed(np.random.default_rng(tokens), tokens)
        for name, (call, rowed, shared) in made.items():

            def put(array: Any, of: str = dtype) -> Any:
                return to_device(array if array.dtype.kind == "i" else array.astype(of))

            rows = {n: put(a) for n, a in rowed.items()}
            rest = {n: put(a) for n, a in shared.items()}
            with dlblas.deterministic():
                whole = bits_of(call(**rows, **rest))
                for count in (1, 2, 3, 7, 8, 9, 17, tokens // 2, tokens - 1):
                    first = pick.randrange(tokens - count + 1)
                    part = {n: a[first : first + count] for n, a in rows.items()}
                    found = bits_of(call(**part, **rest))
                    same = np.array_equal(found, whole[first : first + count])
                    assert same, f"{name} {dtype}: tokens {first} to {first + count} of {tokens}"


@pytest.mark.parametrize("tokens", [40, 64, 200])
def test_tokens_of_what_is_composed(tokens: int) -> None:
    check_composed(lambda array: array, tokens)


def tensor_of(array: Any) -> Any:
    import torch

    if array.dtype.kind in "iu":
        return torch.from_numpy(np.ascontiguousarray(array)).to("cuda")
    wide = torch.from_numpy(np.ascontiguousarray(array).astype(np.float32))
    return wide.to("cuda", getattr(torch, array.dtype.name))


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [40, 64, 200])
def test_tokens_of_what_is_composed_on_a_gpu(tokens: int) -> None:
    pytest.importorskip("torch")
    check_composed(tensor_of, tokens)


@pytest.mark.gpu
@pytest.mark.attack("the same bits in parts, on a GPU")
@pytest.mark.parametrize("op", sorted(CUTTERS))
def test_parts_on_a_gpu(op: str) -> None:
    pytest.importorskip("torch")
    function = getattr(dlblas, op)

    def run(batch: Batch, given: dict[str, Any]) -> list[Any]:
        put = {n: tensor_of(v) if hasattr(v, "dtype") else v for n, v in given.items()}
        made = function(**put)
        results = list(made) if isinstance(made, tuple) else [made]
        results = results[: len(batch.results)] + [put[name] for name in batch.there]
        return [bits_of(r) for r in results]

    with dlblas.deterministic():
        for batch, pick in batches(op, 8, 4):
            whole = run(batch, batch.given)
            for _ in range(CUTS):
                cut, given = batch.cut(pick)
                found = run(batch, given)
                assert not batch.differ(found, whole, cut), f"{batch.name}: {cut.words}"
