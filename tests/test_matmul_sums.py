"""How exact the sums of ``matmul`` are: our CPU kernels against NumPy's, our GPU kernels against
cuBLAS's, on the same inputs. Errors are in units of u·Σ|ab|, u = 2⁻²⁴: what one rounding of f32 may
cost. Below FLOOR of them nothing is compared: there it is luck which of two sums is nearer.

The tables are printed (``-s``). Read next: ops/gemm/matmul_config.hpp (``MatmulSums``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dlblas
import numpy as np
import pytest

UNIT = 2.0**-24
FLOOR = 1.5
KINDS = ("normal", "uniform", "constant", "alternating", "ones")
# NumPy has other code for one row, one column, few columns and small matrices.
SHAPES = ((1, 1), (1, 64), (64, 1), (3, 5), (8, 8), (4, 64), (16, 16), (64, 8), (64, 64))
DEPTHS = (64, 100, 256, 1000, 2048, 4096, 16384, 65536, 1 << 20)
MOST_ELEMENTS = 1 << 20

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


def exact(a: Any, b: Any) -> tuple[Any, Any]:
    """The product and Σ|ab| in f64."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    return wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b)


class Error:
    """Of all elements of some products: the largest and the root mean square."""

    def __init__(self) -> None:
        self.most, self.squares, self.count = 0.0, 0.0, 0

    def add(self, got: Any, value: Any, size: Any) -> None:
        error = np.abs(np.asarray(got, np.float64) - value) / (UNIT * size)
        self.most = max(self.most, float(error.max()))
        self.squares += float((error**2).sum())
        self.count += error.size

    @property
    def rms(self) -> float:
        return (self.squares / self.count) ** 0.5

    def no_worse(self, other: Error, factor: float) -> bool:
        """The largest of few draws is a matter of luck: it may be half as much again."""
        return self.rms <= max(FLOOR, factor * other.rms) and self.most <= max(
            4 * FLOOR, 1.5 * factor * other.most
        )

    def __str__(self) -> str:
        return f"{self.most:.3g}/{self.rms:.2g}"


def cpu_kernels() -> list[str]:
    row = next(r for r in dlblas.info()["operators"] if r["name"] == "matmul")
    mine = [i["name"] for i in row["implementations"] if i["name"].startswith("cpu_")]
    a, b = dlblas.Spec((1, 64), "f32"), dlblas.Spec((64, 64), "f32")
    rows = dlblas.explain("matmul", a, b).as_dict()["candidates"]
    return [r["implementation"] for r in rows if r["implementation"] in mine and r["supports"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", cpu_kernels())
def test_as_exact_as_numpy(name: str, kind: str) -> None:
    worse = []
    for m, n in SHAPES:
        if "row" in name and m > 8:
            continue
        for k in DEPTHS:
            if max(m, n) * k > MOST_ELEMENTS:
                continue
            ours, theirs = Error(), Error()
            fewest = 2 if kind in KINDS[:2] else 8
            draws = max(fewest, min(60, (1 << 18) // (k * max(m, n))))
            for seed in range(draws):
                a, b = draw(kind, m, k, n, seed)
                value, size = exact(a, b)
                theirs.add(a @ b, value, size)
                with dlblas.pinned("matmul", name):
                    ours.add(dlblas.matmul(a, b), value, size)
            line = f"{name} {kind} {m}x{k}x{n}: {ours}, NumPy {theirs}"
            print(line)
            if not ours.no_worse(theirs, 2):
                worse.append(line)
    assert not worse, "\n".join(worse)


@pytest.mark.parametrize("name", cpu_kernels())
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_dtypes_sum_alike(name: str, dtype: str) -> None:
    """f16 and bf16 are f32 as soon as they are read: against NumPy's f32 product of the same."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    for m, k, n in ((1, 64, 64), (1, 4096, 64), (7, 20000, 40), (7, 1000, 5)):
        for transposed in (False, True):
            ours, theirs = Error(), Error()
            for seed in range(3):
                a, b = (x.astype(kind) for x in draw("uniform", m, k, n, seed))
                value, size = exact(a, b)
                theirs.add(a.astype(np.float32) @ b.astype(np.float32), value, size)
                if transposed:
                    b = np.ascontiguousarray(b.T).T
                with dlblas.pinned("matmul", name):
                    ours.add(dlblas.matmul(a, b, out_dtype="f32"), value, size)
            assert ours.no_worse(theirs, 2), f"{m}x{k}x{n}: {ours}, NumPy {theirs}"


@pytest.mark.parametrize("name", [*cpu_kernels(), ""])
def test_many_ones(name: str) -> None:
    """2²⁵ ones are 33,554,432; one f32 chain stops at half of that."""
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
    """Between spans the error of each addition is kept: that of an infinite one is NaN."""
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


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_as_exact_as_cublas(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    of = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    worse = []
    for m, n in GPU_SHAPES:
        for k in GPU_DEPTHS:
            if max(m, n) * k > 1 << 27:
                continue
            for kind in KINDS:
                gen = torch.Generator("cuda").manual_seed(k + m)
                shape = {"device": "cuda", "generator": gen}
                if kind in ("normal", "uniform"):
                    make = torch.randn if kind == "normal" else torch.rand
                    a, b = make(m, k, **shape).to(of), make(n, k, **shape).to(of).T
                else:
                    value = 1 if kind == "ones" else 0.7
                    a = torch.full((m, k), value, device="cuda", dtype=of)
                    b = torch.full((n, k), value, device="cuda", dtype=of).T
                    if kind == "alternating":
                        a[:, 1::2] *= -1
                value = torch.zeros(m, n, device="cuda", dtype=torch.float64)
                size = torch.zeros_like(value)
                for k0 in range(0, k, 1 << 16):
                    part_a, part_b = (
                        a[:, k0 : k0 + (1 << 16)].double(),
                        b[k0 : k0 + (1 << 16)].double(),
                    )
                    value += part_a @ part_b
                    size += part_a.abs() @ part_b.abs()
                value, size = value.cpu().numpy(), size.cpu().numpy()
                theirs = Error()
                kwargs = {} if dtype == "f32" else {"out_dtype": torch.float32}
                theirs.add(torch.mm(a, b, **kwargs).cpu().numpy(), value, size)
                rows = dlblas.explain("matmul", a, b, out_dtype="f32").as_dict()["candidates"]
                line = f"{dtype} {kind:11} {m}x{k}x{n}: cuBLAS {theirs}"
                for row in rows:
                    name = row["implementation"]
                    if not (row["supports"] and name.startswith("cuda_")):
                        continue
                    ours = Error()
                    with dlblas.pinned("matmul", name):
                        got = dlblas.matmul(a, b, out_dtype="f32")
                    ours.add(got.cpu().numpy(), value, size)
                    line += f"  {name} {ours}"
                    if kind == "ones" and ours.most > 0:
                        worse.append(f"{name}: {m}x{k}x{n} ones are not {k}")
                    if not ours.no_worse(theirs, 1.5):
                        worse.append(f"{dtype} {kind} {m}x{k}x{n}: {name} {ours}, cuBLAS {theirs}")
                print(line)
    assert not worse, "\n".join(worse)
