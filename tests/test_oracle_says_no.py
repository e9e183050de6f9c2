"""An oracle that can say no: at every size of every letter of every operator, it refuses a wrong
result and accepts what the built-in implementations write.

Read next: oracle_perturbations.py, docs/testing.md.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import dlblas
import numpy as np
import oracle_perturbations as wrong
import pytest
from depth import depth_of, some
from dlblas.harness.call import Call
from levels import LEVELS
from rooms import facts_of

REGISTRY = wrong.REGISTRY
LETTERS = [
    (op, row["name"])
    for op, o in REGISTRY.operators.items()
    if not o["judge"]  # its own tests spoil its results
    for row in o["letters"]
]
SIZES = (1, 2, 3, 7, 16, 33, 64, 257, 1000, 4096, 65537, 2**18)
LONG = (2**20, 2**22, 2**25)
IN_A_SAMPLE = LONG[:2]  # one letter each: of 2^25 elements one takes a minute and more
MAX_OF_MANY = 4096  # where no sum grows with a size
# Peak memory to judge a problem, in bytes per element of the inputs and results in f32: 19 to 88
# (14 operators, 25 November 2026); and how much one test may use beside the others.
BYTES_AN_ELEMENT, MAX_BYTES = 100, 13 << 29  # two matrices of two rows of 2^24
MAX_ELEMENTS = MAX_BYTES // BYTES_AN_ELEMENT


def has_many(op: str, letter: str) -> bool:
    """Whether large sizes cost the reference too much time or memory: operators with many letters
    (q of [T, H, D] and a table besides); heads (a row may need all of them); results with one value
    per row beside results with whole rows (the reference's arrays are as large as both)."""
    facts = REGISTRY.operators[op]
    results = [[d["text"] for d in result["dims"]] for result in facts["results"]]
    heads = any(letter in dims[1:-1] for dims in results)
    values = [letter] in results and any(len(dims) > 1 and dims[0] == letter for dims in results)
    return len(facts["letters"]) > 3 or heads or values


def others_of(op: str, letter: str, size: int, rng: Any) -> int:
    """The other letters: enough elements to show a result's size, few enough to take seconds."""
    if has_many(op, letter):
        return 4 if size <= 1000 else 2
    others = int(rng.integers(5, 20)) if size <= 2**16 else 4
    while others > 2 and wrong.elements_of(op, wrong.sizes_of(op, letter, size, others)) > 2**21:
        others -= 1
    return others


def within_memory(op: str, letter: str, size: int) -> tuple[int, int]:
    """The letter's size and the others' that fit in a test's memory: the requested size, or half of
    it, and so on. Others of 1 would show little: one value, normalised, is zero."""
    if wrong.elements_of(op, wrong.sizes_of(op, letter, size, others=2)) <= MAX_ELEMENTS:
        return size, 2
    return within_memory(op, letter, size // 2)


def long_letters() -> list[tuple[str, str]]:
    """Letters that can be long while the others are short (unlike k, which cannot exceed E)."""
    few = [row for row in LETTERS if not has_many(*row)]
    return [row for row in few if row[1] not in wrong.given_sizes(row[0])]


# Letters that stop at MAX_OF_MANY above get one more size, with others of 2, or the largest that
# their operator names.
MORE_OF_MANY = 65537
TAKE_LONG = [(op, letter) for op, letter in LETTERS if letter in facts_of(op).largest]


def letters_of_many() -> list[tuple[str, str]]:
    many = [row for row in LETTERS if has_many(*row) and row not in TAKE_LONG]
    return [row for row in many if row[1] not in wrong.given_sizes(row[0])]


def refuse_all(case: Any, seed: int, long: bool = False) -> list[tuple[str, str]]:
    """Every result and perturbation that was tried. For a ``long`` sum, the library itself judges
    only the least visible element; the rest is compared with the error it allows per element."""
    rng = np.random.default_rng(seed)
    tried = []
    for result in wrong.judged(case, seed):
        for name, array in wrong.perturbations(result, rng):
            told = f"{case}, {result.name}: {name} passes"
            if long and name != "worst":
                assert result.refused(array), told
            else:
                verdict = result.verify(array)
                assert verdict.wrong > 0, f"{told}: {verdict}"
                assert result.refused(array), f"{told} by what is allowed"
            tried.append((result.name, name))
    return tried


def drawn(choices: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Every operator and letter with every choice; or one of these for each of half the operators,
    by the seed."""
    depth = depth_of()
    every = [(op, letter, choice) for op, letter in LETTERS for choice in choices]
    if depth.full:
        return every
    draw = random.Random(depth.seed)
    ops = [list(of_one) for _, of_one in itertools.groupby(every, lambda row: row[0])]
    return [draw.choice(of_one) for of_one in some(ops, len(ops) // 2, choices[0])]


def some_of(sizes: list[Any], count: int) -> list[Any]:
    """All sizes, or ``count`` drawn by the seed, in order: the largest, which takes every attack,
    and others."""
    depth = depth_of()
    if depth.full or len(sizes) <= count:
        return sizes
    places = random.Random(depth.seed).sample(range(len(sizes) - 1), count - 1)
    return [sizes[place] for place in [*sorted(places), -1]]


@pytest.mark.parametrize(("op", "letter", "dtype"), drawn(("f32", "f16", "bf16")))
def test_wrong_results_are_refused_at_every_size(
    op: str, letter: str, dtype: str, attacked: Callable[..., None]
) -> None:
    """Each judged result, perturbed in each way that can show in it. Where the drawn sizes miss
    one, the other sizes follow."""
    rng = np.random.default_rng(11)
    sizes = [size for size in SIZES if size <= MAX_OF_MANY or not has_many(op, letter)]
    cases = [(size, others_of(op, letter, size, rng)) for size in sizes]  # whichever are drawn
    every = [wrong.problem(op, letter, size, dtype, "normal", others) for size, others in cases]
    chosen, owed = some_of(every, 4), wrong.owed(every)
    tried: list[tuple[str, str]] = []
    for case in [*chosen, *(case for case in every if case not in chosen)]:
        if case not in chosen and owed <= set(tried):
            break
        tried += refuse_all(case, seed=case.dims[letter])
    assert owed <= set(tried), f"never tried: {sorted(owed - set(tried))}"
    attacked("a wrong result for the oracle, at every size", len(tried))


def drawn_long() -> list[tuple[str, str, int]]:
    """Every operator, letter and length of a long sum; or one letter per shorter length, by the
    seed."""
    depth = depth_of()
    if depth.full:
        return [(*row, longest) for row in long_letters() for longest in LONG]
    draw = random.Random(depth.seed)
    return [(*draw.choice(long_letters()), longest) for longest in IN_A_SAMPLE]


@pytest.mark.parametrize(("op", "letter", "longest"), drawn_long())
def test_wrong_results_of_long_sums_are_refused(op: str, letter: str, longest: int) -> None:
    size, others = within_memory(op, letter, longest)
    case = wrong.problem(op, letter, size, "f32", "normal", others)
    tried = {name for _, name in refuse_all(case, seed=7, long=True)}
    assert "worst" in tried, tried
    if tried >= {"zeros", "scaled"}:
        return
    # If two cancelling sums are multiplied, the terms' sizes hide any error: verify these anyway.
    for result in wrong.judged(case, seed=7):
        for name, array in wrong.of_all_elements(result).items():
            verdict = result.verify(array)
            assert verdict.wrong > 0, f"{case}, {result.name}: {name} passes: {verdict}"


def drawn_of_many() -> list[tuple[str, str]]:
    depth = depth_of()
    every = letters_of_many()
    return every if depth.full else random.Random(depth.seed).sample(every, 6)


@pytest.mark.parametrize(("op", "letter"), drawn_of_many())
def test_wrong_results_beside_many_letters_are_refused(op: str, letter: str) -> None:
    # Use bf16 where there is no f32: in f16, sums of absolute terms overflow and hide every error.
    dtypes = REGISTRY.operators[op]["tensors"][0]["dtypes"]
    dtype = "bf16" if "bf16" in dtypes and "f32" not in dtypes else "f32"
    case = wrong.problem(op, letter, MORE_OF_MANY, dtype, "normal", 2)
    if letter not in facts_of(op).all_elements:
        # Two groups of two rows may both be empty, so one of several seeds suffices.
        assert any(refuse_all(case, seed, long=True) for seed in range(7, 17))
        return
    for result in wrong.judged(case, seed=7):
        for name, array in wrong.of_all_elements(result).items():
            verdict = result.verify(array)
            assert verdict.wrong > 0, f"{case}, {result.name}: {name} passes: {verdict}"


def drawn_that_take_long() -> list[tuple[str, str]]:
    depth = depth_of()
    return TAKE_LONG if depth.full else random.Random(depth.seed).sample(TAKE_LONG, 1)


@pytest.mark.parametrize(("op", "letter"), drawn_that_take_long())
def test_wrong_results_as_large_as_memory_allows_are_refused(op: str, letter: str) -> None:
    case = wrong.problem(op, letter, facts_of(op).largest[letter], "f32", "normal", 2)
    assert any(refuse_all(case, seed, long=True) for seed in range(7, 17))


def test_letters_of_many_name_letters_that_are_there() -> None:
    facts = {op: facts_of(op) for op in REGISTRY.operators}
    named = [(op, letter) for op, f in facts.items() for letter in (*f.largest, *f.all_elements)]
    assert {*LETTERS} >= {*named}
    alone = sum(len(f.all_elements) for f in facts.values())
    assert len(letters_of_many()) > 10 * alone > 0


def test_no_long_sum_takes_more_memory_than_a_test_may_have() -> None:
    """Computed from shapes alone, for every operator and letter that the test above may draw."""
    shortened = 0
    for (op, letter), longest in itertools.product(long_letters(), LONG):
        size, others = within_memory(op, letter, longest)
        sizes = wrong.sizes_of(op, letter, size, others)
        assert wrong.elements_of(op, sizes) <= MAX_ELEMENTS, (op, letter, size)
        assert size >= 2**20, f"{op}, {letter}: {size} is no long sum"
        shortened += size < longest
    assert shortened > 0  # 2^25 of some operators' letters takes 160 GB


KINDS = ("normal", "uniform", "constant", "alternating", "halves", "alternating_constant")


def spread(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Terms for sums along either dimension: of one sign, of alternating signs, or equal."""
    if kind == "normal":
        return rng.standard_normal(shape)
    sizes = rng.random(shape) if not kind.endswith("constant") else np.full(shape, 0.1)
    if kind in ("uniform", "constant"):
        return sizes
    place = sum(np.ogrid[tuple(slice(n) for n in shape)])
    half = np.arange(shape[-1]) < shape[-1] // 2
    return sizes * (np.where(half, 1, -1) if kind == "halves" else 1 - 2 * (place % 2))


@pytest.mark.parametrize(("op", "letter", "kind"), drawn(KINDS))
def test_right_implementations_pass_at_every_size(op: str, letter: str, kind: str) -> None:
    """Every built-in implementation, on draws whose roundings walk, drift or repeat. Our own of
    each level must run, and so must oneDNN where it is found and registered for the operator."""
    ran = set()
    # The last is always drawn: in f32, which oneDNN multiplies on every CPU.
    sizes = [(7, "f32"), (300, "bf16"), (4096, "f32"), (65536, "f16"), (65536, "f32")]
    for size, dtype in some_of(sizes, 2):
        others, size = (2, min(size, MAX_OF_MANY)) if has_many(op, letter) else (6, size)
        call = Call(REGISTRY, wrong.problem(op, letter, size, dtype, "normal", others), seed=5)
        rng = np.random.default_rng(size)
        for name, tensor in call.inputs.items():
            if tensor.dtype.kind in "iu" or not tensor.shape:
                continue  # indices stay inside their bounds; one number is no sum
            tensor.assign(spread(kind, tensor.shape, rng))
            call.pristine[name] = tensor.copy()
        for row in REGISTRY.implementations(op):
            with dlblas.pinned(op, row["name"]):
                try:
                    call.run(0xA5)
                except dlblas.errors.UnsupportedError:
                    continue
            verdict = dlblas.verify(op, (), call.out(), call.before())
            assert verdict.ok, f"{row['name']}, {letter} = {size}, {dtype}: {verdict}"
            ran.add(row["name"])
    names = {row["name"] for row in REGISTRY.implementations(op)}
    found = {row["name"] for row in dlblas.info()["libraries"] if row["found"]}
    missing = names & {*LEVELS, *found} - {"cublaslt"} - ran
    parts = {row["name"] for row in REGISTRY.implementations(op) if row["has_parts"]}
    if ran & parts and not ran & {*LEVELS}:
        missing -= {*LEVELS}  # calls of another operator serve it: those of each level are there
    if any(tensor.dtype.itemsize == 1 and tensor.dtype != "i1" for tensor in call.inputs.values()):
        missing -= {"onednn"}  # of codes it multiplies i8 alone
    assert not missing and len(ran) > 1, f"took no part: {sorted(missing)}; {sorted(ran)} did"


def ones(length: int) -> tuple[Any, Any]:
    return np.ones((1, length), np.float32), np.ones((length, 1), np.float32)


def test_one_chain_of_f32_over_a_long_sum_is_refused() -> None:
    a, b = ones(2**25)
    stuck, right = (np.full((1, 1), v, np.float32) for v in (2.0**24, 2.0**25))
    assert not dlblas.verify("matmul", (a, b), stuck).ok
    assert dlblas.verify("matmul", (a, b), right).ok
    a, b = (0.1 * v[: 2**20].reshape(s) for v, s in zip((a[0], b), ((1, -1), (-1, 1)), strict=True))
    chain = np.cumsum(a[0] * b[:, 0], dtype=np.float32)[-1:].reshape(1, 1)
    assert not dlblas.verify("matmul", (a, b), chain).ok


def test_a_result_that_zeros_would_pass_for_is_mistrusted() -> None:
    a, b = ones(4096)
    a[0, 2048:] = -1  # exactly zero, of terms that are not
    assert dlblas.verify("matmul", (a, b), a @ b).mistrusted
    a[0, 0] += np.float32(2.0**-20)  # below what kernels may be off
    assert dlblas.verify("matmul", (a, b), a @ b).mistrusted


# Registered operators stay for the whole process, so this runs in its own process.
DOUBLED = """
import sys
import numpy as np
import dlblas
import oracle_perturbations as wrong

dlblas.register_operator("own_doubled(x: f[*T, C]) -> y: like(x)[*T, C]", lambda x: 2 * x)
kind = wrong.numpy_dtype(sys.argv[1])
for size in 1, 64, 4096, 2**18, 2**22:
    x = np.random.default_rng(size).standard_normal((3, size)).astype(kind)
    right = (2 * x.astype(np.float64)).astype(kind)
    assert dlblas.verify("own_doubled", (x,), right).ok, size
    spoilt = [right * 0, (right.astype(np.float64) * 1.02).astype(kind), right[[1, 0, 2]]]
    if kind == np.float32:
        spoilt.append(right.astype(wrong.numpy_dtype("bf16")).astype(np.float32))
    for way, array in enumerate(spoilt):
        assert dlblas.verify("own_doubled", (x,), array).wrong > 0, (size, way)
"""


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_default_bound_of_a_registered_operator_says_no(dtype: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DOUBLED, dtype], capture_output=True, text=True, timeout=900,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
