"""How exact the sums of ``matmul`` are: our CPU kernels against NumPy's, our GPU kernels against
cuBLAS's, on the same inputs. Errors are in units of u·Σ|ab|, u = 2⁻²⁴: the most that one f32
rounding can cost. Errors below a floor are not compared, since there luck decides which of two sums
is closer. Rounding each product and the result once costs 0.4 u·√Σ(ab)² and 0.4 u·|Σab| (root mean
squares: rounding errors are independent), and FLOOR times each is forgiven. Equal products have
equal errors, which do not average out: one rounding per chain of 8, our shortest, costs up to
u·Σ|ab| / 8, whereas a tree, or NumPy's even number of lanes of either sign, has no such error.

The tables are printed (``-s``). Read next: cpu/gemm/job.hpp (``GemmSumOrder``).
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import dlblas
import numpy as np
import pytest
from depth import some

pytestmark = pytest.mark.attack("sums over a long K, beside NumPy and cuBLAS")
UNIT = 2.0**-24
FLOOR = 1.5
KINDS = ("normal", "uniform", "constant", "alternating", "ones")
EQUAL = KINDS[2:]  # products of one absolute value
# NumPy uses different code for one row, one column, few columns and small matrices.
SHAPES = ((1, 1), (1, 64), (64, 1), (3, 5), (8, 8), (4, 64), (16, 16), (64, 8), (64, 64))
DEPTHS = (64, 100, 256, 1000, 2048, 4096, 16384, 65536, 1 << 20)
MAX_ELEMENTS = 1 << 20

Product = Callable[[Any, Any], Any]


def draw(kind: str, m: int, k: int, n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    shapes = ((m, k), (k, n))
    if kind == "normal":
        a, b = (rng.standard_normal(s, dtype=np.float32) for s in shapes)
    elif kind == "uniform":
        a, b = (rng.random(s, dtype=np.float32) for s in shapes)
    else:
        values = (1, 1) if kind == "ones" else rng.random(2)  # of one value, chains may be lucky
        a, b = (np.full(s, v, np.float32) for s, v in zip(shapes, values, strict=True))
        if kind == "alternating":
            a[:, 1::2] *= -1
    return a, b


class Exact(NamedTuple):
    """In f64: the product, Σ|ab|, and the accumulated size of one rounding per product (for equal
    products, one per eight), divided by u."""

    value: Any
    size: Any
    rounded: Any


def exact(a: Any, b: Any, kind: str) -> Exact:
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    size, root = np.abs(wide_a) @ np.abs(wide_b), np.sqrt((wide_a**2) @ (wide_b**2))
    return Exact(wide_a @ wide_b, size, size / 8 if kind in EQUAL else root)


class Error:
    """Over all elements of some products: the largest error and the root mean square, and the same
    two of the forgiven floor."""

    def __init__(self) -> None:
        self.most, self.squares, self.count = 0.0, 0.0, 0
        self.most_forgiven, self.squares_forgiven = 0.0, 0.0

    def add(self, got: Any, of: Exact) -> None:
        error = np.abs(np.asarray(got, np.float64) - of.value) / (UNIT * of.size)
        floor = FLOOR * (of.rounded + np.abs(of.value)) / of.size
        self.most = max(self.most, float(error.max()))
        self.squares += float((error**2).sum())
        self.most_forgiven = max(self.most_forgiven, float(floor.max()))
        self.squares_forgiven += float((floor**2).sum())
        self.count += error.size

    @property
    def rms(self) -> float:
        return (self.squares / self.count) ** 0.5

    @property
    def forgiven(self) -> float:
        return (self.squares_forgiven / self.count) ** 0.5

    def no_worse(self, other: Error, factor: float) -> bool:
        """The largest error of a few draws is a matter of luck: it may be half as large again."""
        return self.rms <= max(self.forgiven, factor * other.rms) and self.most <= max(
            4 * self.most_forgiven, 1.5 * factor * other.most
        )

    def __str__(self) -> str:
        return f"{self.most:.3g}/{self.rms:.2g}"


def cpu_kernels() -> list[str]:
    row = next(r for r in dlblas.info()["operators"] if r["name"] == "matmul")
    mine = [i["name"] for i in row["implementations"] if i["name"].startswith("cpu_")]
    a, b = dlblas.Spec((1, 64), "f32"), dlblas.Spec((64, 64), "f32")
    rows = dlblas.explain("matmul", a, b).as_dict()["candidates"]
    return [r["implementation"] for r in rows if r["implementation"] in mine and r["supports"]]


def chain(a: Any, b: Any, fused: bool) -> Any:
    """What this file must refuse: a single f32 sum that adds one product at a time. ``fused``: the
    products are not rounded, as in a fused multiply-add."""
    wide = np.float64 if fused else np.float32
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        product = np.multiply.outer(a[:, k].astype(wide), b[k].astype(wide))
        total = (total + product).astype(np.float32)
    return total


@pytest.mark.parametrize("fused", [False, True], ids=["rounded", "fused"])
@pytest.mark.parametrize("kind", ["normal", "uniform", "constant"])
def test_one_chain_is_refused(kind: str, fused: bool) -> None:
    """By the comparison that our kernels pass. Alternating products would be a chain's best case:
    every second sum is exact."""
    passed = []
    for m, k, n in ((64, 4096, 64), (1, 4096, 64), (8, 16384, 8), (1, 65536, 16)):
        of_chain, theirs = Error(), Error()
        for seed in range(max(1, 8192 // k)):
            a, b = draw(kind, m, k, n, seed)
            of = exact(a, b, kind)
            theirs.add(a @ b, of)
            of_chain.add(chain(a, b, fused), of)
        line = f"{kind} {m}x{k}x{n}: {of_chain}, NumPy {theirs}, forgiven {theirs.forgiven:.2g}"
        print(line)
        if of_chain.no_worse(theirs, 2):
            passed.append(line)
    assert not passed, "\n".join(passed)


@pytest.mark.parametrize(("name", "kind"), some(itertools.product(cpu_kernels(), KINDS), 6))
def test_as_exact_as_numpy(name: str, kind: str) -> None:
    worse = []
    for m, n in some(SHAPES, 3, f"{name} {kind}"):
        if "row" in name and m > 8:
            continue
        for k in DEPTHS:
            if max(m, n) * k > MAX_ELEMENTS:
                continue
            ours, theirs = Error(), Error()
            fewest = 2 if kind in KINDS[:2] else 8
            draws = max(fewest, min(60, (1 << 18) // (k * max(m, n))))
            for seed in range(draws):
                a, b = draw(kind, m, k, n, seed)
                of = exact(a, b, kind)
                theirs.add(a @ b, of)
                with dlblas.pinned("matmul", name):
                    ours.add(dlblas.matmul(a, b), of)
            line = f"{name} {kind} {m}x{k}x{n}: {ours}, NumPy {theirs}"
            print(line)
            if not ours.no_worse(theirs, 2):
                worse.append(line)
    assert not worse, "\n".join(worse)


@pytest.mark.parametrize("kind", some(KINDS, 1))
def test_as_exact_as_numpy_over_the_longest_sum(kind: str) -> None:
    """K = 2²⁵, two draws, all kernels on the same inputs. The judge passes them: it checks only the
    one with the largest error, since all have one element and one bound."""
    theirs, ours = Error(), {name: Error() for name in cpu_kernels()}
    for seed in range(2):
        a, b = draw(kind, 1, 1 << 25, 1, seed)
        of = exact(a, b, kind)
        theirs.add(a @ b, of)
        made = {}
        for name in ours:
            with dlblas.pinned("matmul", name):
                made[name] = dlblas.matmul(a, b)
        for name, error in ours.items():
            error.add(made[name], of)
        furthest = max(made, key=lambda name: abs(made[name] - of.value).item())
        if seed == 0:
            verdict = dlblas.verify("matmul", (a, b), made[furthest])
            assert verdict.ok, f"{furthest} {kind}: {verdict}"
    worse = [f"{name} {kind}: {e}, NumPy {theirs}" for name, e in ours.items()
             if not e.no_worse(theirs, 2)]  # fmt: skip
    assert not worse, "\n".join(worse)


@pytest.mark.parametrize("name", cpu_kernels())
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_dtypes_sum_alike(name: str, dtype: str) -> None:
    """f16 and bf16 are widened to f32 when read: compared with NumPy's f32 product of the same
    values."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    of_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    for m, k, n in ((1, 64, 64), (1, 4096, 64), (7, 20000, 40), (7, 1000, 5)):
        for transposed in (False, True):
            ours, theirs = Error(), Error()
            for seed in range(3):
                a, b = (x.astype(of_dtype) for x in draw("uniform", m, k, n, seed))
                of = exact(a, b, "uniform")
                theirs.add(a.astype(np.float32) @ b.astype(np.float32), of)
                if transposed:
                    b = np.ascontiguousarray(b.T).T
                with dlblas.pinned("matmul", name):
                    ours.add(dlblas.matmul(a, b, out_dtype="f32"), of)
            assert ours.no_worse(theirs, 2), f"{m}x{k}x{n}: {ours}, NumPy {theirs}"


@pytest.mark.parametrize("name", [*cpu_kernels(), ""])
def test_many_ones(name: str) -> None:
    """2²⁵ ones sum to 33,554,432; a single f32 chain stops at half of that."""
    a, b = np.ones((1, 1 << 25), np.float32), np.ones((1 << 25, 1), np.float32)
    if name:
        with dlblas.pinned("matmul", name):
            assert dlblas.matmul(a, b)[0, 0] == 33554432
    else:
        assert dlblas.matmul(a, b)[0, 0] == 33554432
        with dlblas.deterministic():
            assert dlblas.matmul(a, b)[0, 0] == 33554432


@pytest.mark.parametrize("name", cpu_kernels())
def test_infinities_and_nans_outlast_the_spans(name: str) -> None:
    """Each addition between spans also records its rounding error, which is NaN for an infinite
    sum."""
    k = 5 * 8192 + 7
    a, b = np.ones((3, k), np.float32), np.ones((k, 3), np.float32)
    a[0, 8192 + 5] = np.inf
    a[1, :] = 3e38
    b[k - 1, 2] = np.nan
    for transposed in (False, True):
        right = np.ascontiguousarray(b.T).T if transposed else b
        with dlblas.pinned("matmul", name):
            got = dlblas.matmul(a, right)
        assert np.isposinf(got[:2, :2]).all() and np.isnan(got[:, 2]).all()
        assert (got[2, :2] == k).all()


GPU_SHAPES = ((1, 1), (1, 64), (64, 64), (512, 512))
GPU_DEPTHS = tuple(1 << p for p in (6, 8, 10, 12, 14, 16, 18, 20, 22, 25))
GPU_MAX_ELEMENTS = 1 << 27


def draw_on_gpu(kind: str, m: int, k: int, n: int, of: Any, seed: int) -> tuple[Any, Any]:
    """b in a linear layer's layout: contiguous along K."""
    import torch

    if kind in ("normal", "uniform"):
        generator = torch.Generator("cuda").manual_seed(1000 * k + 10 * m + seed)
        make = torch.randn if kind == "normal" else torch.rand
        a, b = (make(s, k, device="cuda", generator=generator).to(of) for s in (m, n))
        return a, b.T
    values = (1, 1) if kind == "ones" else np.random.default_rng(seed).random(2)
    a, b = (
        torch.full((s, k), float(v), device="cuda", dtype=of)
        for s, v in zip((m, n), values, strict=True)
    )
    if kind == "alternating":
        a[:, 1::2] *= -1
    return a, b.T


def exact_on_gpu(a: Any, b: Any, kind: str) -> Exact:
    """As exact(), in slices of K: f64 copies of whole operands may not fit."""
    import torch

    value = torch.zeros(a.shape[0], b.shape[1], device="cuda", dtype=torch.float64)
    size, squares = torch.zeros_like(value), torch.zeros_like(value)
    for k in range(0, a.shape[1], 1 << 16):
        wide_a, wide_b = a[:, k : k + (1 << 16)].double(), b[k : k + (1 << 16)].double()
        value += wide_a @ wide_b
        size += wide_a.abs() @ wide_b.abs()
        squares += wide_a.square() @ wide_b.square()
    rounded = size / 8 if kind in EQUAL else squares.sqrt()
    return Exact(*(sums.cpu().numpy() for sums in (value, size, rounded)))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["normal", "uniform", "constant"])
def test_one_chain_is_refused_beside_cublas(kind: str) -> None:
    torch = pytest.importorskip("torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    for m, k, n in ((1, 65536, 64), (64, 65536, 64)):
        a, b = draw_on_gpu(kind, m, k, n, torch.float32, 0)
        of = exact_on_gpu(a, b, kind)
        of_chain, theirs = Error(), Error()
        theirs.add(torch.mm(a, b).cpu().numpy(), of)
        of_chain.add(chain(a.cpu().numpy(), b.cpu().numpy(), fused=True), of)
        assert not of_chain.no_worse(theirs, 1.5), f"{kind}: a chain {of_chain}, cuBLAS {theirs}"


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "n"), GPU_SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_as_exact_as_cublas(dtype: str, m: int, n: int, kind: str) -> None:
    """The peer is cuBLAS's product of the same dtype. The judge passes all implementations,
    including cuBLASLt, which is not compared with the peer."""
    torch = pytest.importorskip("torch")
    of = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    kwargs = {} if dtype == "f32" else {"out_dtype": torch.float32}
    worse: list[str] = []
    judged: set[str] = set()
    for k in GPU_DEPTHS:
        if max(m, n) * k > GPU_MAX_ELEMENTS:
            continue
        theirs, ours = Error(), collections.defaultdict(Error)
        draws = 1 if kind == "ones" else max(1, min(8, (1 << 24) // (k * max(m, n))))
        names = []
        for seed in range(draws):
            a, b = draw_on_gpu(kind, m, k, n, of, seed)
            sums = exact_on_gpu(a, b, kind)
            theirs.add(torch.mm(a, b, **kwargs).cpu().numpy(), sums)
            if not names:
                told = dlblas.explain("matmul", a, b, out_dtype="f32").as_dict()["candidates"]
                supported = [r["implementation"] for r in told if r["supports"]]
                names = [n for n in supported if n == "cublaslt" or n.startswith("cuda_")]
                judged |= set(names)
            for name in names:
                with dlblas.pinned("matmul", name):
                    got = dlblas.matmul(a, b, out_dtype="f32")
                ours[name].add(got.cpu().numpy(), sums)
                if seed > 0:
                    continue
                f32, rows = {"out_dtype": "f32"}, sorted({0, m // 2, m - 1})
                verdict = dlblas.verify("matmul", (a, b), got, kwargs=f32, rows=rows)
                if not verdict.ok:
                    worse.append(f"{name} {kind} {m}x{k}x{n}: {verdict}")
        errors = "  ".join(f"{name} {ours[name]}" for name in names)
        print(f"{dtype} {kind:11} {m}x{k}x{n}: cuBLAS {theirs}  {errors}")
        for name in names:
            if name != "cublaslt" and kind == "ones" and ours[name].most > 0:
                worse.append(f"{name}: {m}x{k}x{n} ones are not {k}")
            if name != "cublaslt" and not ours[name].no_worse(theirs, 1.5):
                worse.append(f"{kind} {m}x{k}x{n}: {name} {ours[name]}, cuBLAS {theirs}")
    assert not worse, "\n".join(worse)
    found = {row["name"] for row in dlblas.info()["libraries"] if row["found"]}
    assert judged >= found & {"cublaslt"}, f"cuBLASLt took no part: {judged}"
