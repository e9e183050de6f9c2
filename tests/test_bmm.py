"""dlblas.bmm: each matrix of a batch as matmul computes it, in one call where strides allow.

Read next: ops/gemm/api.py.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest
from dlblas import errors


def random(*shape: int) -> Any:
    return np.random.default_rng(5).standard_normal(shape).astype("f")


@pytest.mark.parametrize("lead", [(3,), (2, 3), (1,), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_each_matrix_is_a_matmul(lead: tuple[int, ...], dtype: Any) -> None:
    a, b = random(*lead, 5, 32).astype(dtype), random(*lead, 32, 7).astype(dtype)
    y = dlblas.bmm(a, b)
    assert y.shape == (*lead, 5, 7) and y.dtype == a.dtype
    wanted = np.matmul(a.astype("f8"), b.astype("f8"))
    np.testing.assert_allclose(y.astype("f8"), wanted, rtol=1e-2, atol=1e-1)
    with dlblas.pinned("batched_matmul", "cpu_each"):  # oneDNN adds up in another order
        y = dlblas.bmm(a, b)
    for at in np.ndindex(*lead):
        np.testing.assert_array_equal(y[at], dlblas.matmul(a[at], b[at]))


@pytest.mark.parametrize("nt", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_a_matrix_has_the_bits_that_the_same_loops_give_it_alone(nt: bool, dtype: Any) -> None:
    """Small matrices, few rows and blocks, at each level, with what follows the sums."""
    op = "batched_matmul_nt" if nt else "batched_matmul"
    ran = set()
    for m, k, n in (
        (8, 8, 8), (32, 32, 32), (5, 7, 3), (9, 100, 33), (64, 64, 64), (33, 17, 50), (3, 200, 20),
        (4, 300, 40), (40, 520, 24), (70, 64, 130), (3, 0, 4),
    ):  # fmt: skip
        a, right = random(7, m, k).astype(dtype), random(7, *((n, k) if nt else (k, n)))
        right = np.repeat(right.astype(dtype), 2, 0)[::2]
        bias = random(n)
        rows = dlblas.explain(op, a, right).as_dict()["candidates"]
        names = [row["implementation"] for row in rows if row["supports"]]
        for name in (name for name in names if name[:4] == "cpu_" and name != "cpu_each"):
            for given in ({}, {"bias": bias, "activation": "silu"}, {"out_dtype": "f32"}):
                with dlblas.pinned(op, name), dlblas.pinned("matmul", name):
                    y = getattr(dlblas, op)(a, right, **given)
                    for i in (0, 3, 6):
                        b = right[i].T if nt else right[i]
                        np.testing.assert_array_equal(y[i], dlblas.matmul(a[i], b, **given), name)
            ran.add(name)
    assert "cpu_baseline" in ran


def test_strides_bias_activation_out_and_dtype() -> None:
    a, b, bias = random(4, 32, 6).swapaxes(1, 2), random(4, 9, 32).swapaxes(1, 2), random(9)
    wanted = np.maximum(a @ b + bias, 0)
    np.testing.assert_allclose(dlblas.bmm(a, b, "relu", bias=bias), wanted, rtol=1e-4, atol=1e-4)
    out = np.full((6, 4, 9), 7, "f").swapaxes(0, 1)
    assert dlblas.bmm(a, b, "relu", bias=bias, out=out) is out
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    assert dlblas.bmm(a, b, out_dtype="f16").dtype == np.float16
    shared = np.broadcast_to(b[:1], b.shape)  # one matrix for all
    np.testing.assert_allclose(dlblas.bmm(a, shared), a @ b[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("nt", [False, True])
def test_many_matrices_on_any_threads_have_the_bits_of_each(threads: int, nt: bool) -> None:
    """Matrices of one call that are launched side by side: any strides and alignments."""
    from dlblas.harness import abi

    op = "batched_matmul_nt" if nt else "batched_matmul"
    for m, k, n in ((8, 32, 8), (5, 7, 3), (1, 40, 33), (40, 24, 17)):
        a, b, bias = random(67, m, k), random(67, *((n, k) if nt else (k, n))), random(n)
        strided = np.repeat(a, 2, 2)[:, :, ::2], np.repeat(b, 3, 0)[::3]
        for left, right in ((a, b), strided, (a[::-1], b), (np.broadcast_to(a[:1], a.shape), b)):
            for added in (None, bias):
                y = np.full((67, m, n), 7, "f")
                given = {"a": left, "b": right, "activation": "relu"}
                abi.call(op, given | ({} if added is None else {"bias": added}), [y], threads)
                for i in (0, 1, 32, 33, 34, 65, 66):
                    one = right[i].T if nt else right[i]
                    wanted = dlblas.matmul(left[i], one, "relu", bias=added)
                    np.testing.assert_allclose(y[i], wanted, rtol=1e-4, atol=1e-4)
                again = np.empty_like(y)
                abi.call(op, given | ({} if added is None else {"bias": added}), [again], 1)
                np.testing.assert_array_equal(again, y)


def test_one_matrix_is_matmul() -> None:
    a, b = random(2, 3, 32), random(32, 7)
    np.testing.assert_array_equal(dlblas.bmm(a, b), dlblas.matmul(a, b))


def test_other_leading_dimensions_are_refused() -> None:
    for a, b in ((random(2, 3, 4), random(3, 4, 5)), (random(3, 4), random(2, 4, 5))):
        with pytest.raises(errors.ShapeMismatchError, match="bmm: a has other leading"):
            dlblas.bmm(a, b)
    with pytest.raises(errors.ShapeMismatchError, match="matmul: "):
        dlblas.bmm(random(2, 3, 4), random(2, 5, 6))


def test_in_torch_eager_and_compiled() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.randn(3, 5, 32), torch.randn(3, 32, 7)
    graph = torch.compile(lambda a, b: dlblas.bmm(a, b), fullgraph=True, backend="aot_eager")
    for run in (dlblas.bmm, graph):
        torch.testing.assert_close(run(a, b), torch.bmm(a, b), rtol=1e-4, atol=1e-4)
    half = dlblas.bmm(a.bfloat16(), b.bfloat16(), out_dtype=torch.float32)
    assert half.dtype is torch.float32


def test_one_call_where_strides_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    face = importlib.import_module("dlblas.ops.gemm_api")
    ran: list[str] = []

    def record(name: str) -> None:
        function = getattr(face, name)

        def call(*args: Any, **named: Any) -> Any:
            ran.append(name)
            return function(*args, **named)

        monkeypatch.setattr(face, name, call)

    for name in ("_matmul", "_batched", "_batched_nt"):
        record(name)
    a, b, weight = random(2, 3, 5, 32), random(2, 3, 32, 7), random(32, 7)
    fused = random(2, 5, 3, 64).swapaxes(1, 2)  # heads of a projection: batch and heads apart
    # a, b, the operators called
    cases: list[tuple[Any, Any, list[str]]] = [
        (a, b, ["_batched"]),
        (a, random(2, 3, 7, 32).swapaxes(2, 3), ["_batched_nt"]),
        (a, np.broadcast_to(weight, b.shape), ["_matmul"]),
        (a[:1, :1], b[:1, :1], ["_matmul"]),
        (a, np.broadcast_to(random(2, 1, 32, 7), b.shape), ["_matmul"] * 2),
        (fused[..., :32], b, ["_batched"] * 2),
        (fused[0, ..., :32], b[0], ["_batched"]),
        (a[:, ::2], b[:, ::2], ["_batched"] * 2),
        (a[0, ::2], b[0, ::2], ["_batched"]),
        (a[:0], b[:0], ["_batched"]),
    ]
    for x, y, expected in cases:
        ran.clear()
        np.testing.assert_allclose(dlblas.bmm(x, y), x @ y, rtol=1e-4, atol=1e-4)
        assert ran == expected, (x.strides, y.strides, ran)
    torch = pytest.importorskip("torch")
    ran.clear()
    keys = torch.randn(2, 3, 7, 32)
    x = torch.from_numpy(a)
    torch.testing.assert_close(dlblas.bmm(x, keys.mT), x @ keys.mT, rtol=1e-4, atol=1e-4)
    out = torch.empty(2, 5, 3, 7).transpose(1, 2)
    assert dlblas.bmm(x, torch.from_numpy(b), out=out) is out
    torch.testing.assert_close(out, x @ torch.from_numpy(b), rtol=1e-4, atol=1e-4)
    assert ran == ["_batched_nt", "_batched", "_batched"]


def test_an_out_that_meets_an_input_is_refused_before_the_first_call() -> None:
    """One call's matrices are written before the next call's are read."""
    torch = pytest.importorskip("torch")
    base = torch.randn(2, 4, 8, 8).transpose(0, 1)
    other = torch.randn(3, 2, 8, 8).transpose(0, 1).contiguous().transpose(0, 1)
    before = base.clone()
    for turn in (lambda t: t, lambda t: t.numpy()):
        part, out, whole = (turn(t) for t in (base[:3], base[1:], other))
        for a, b, name in ((part, whole, "a"), (whole, part, "b")):
            with pytest.raises(errors.ArgumentError, match=f"bmm: out overlaps {name}; expected"):
                dlblas.bmm(a, b, out=out)
    with pytest.raises(errors.ArgumentError, match="bmm: out overlaps bias"):
        dlblas.bmm(other, other, bias=base[3, 1, 7], out=base[1:])
    twice = torch.zeros(3, 1, 8, 8).expand(3, 2, 8, 8)
    with pytest.raises(errors.ArgumentError, match="bmm: out overlaps itself"):
        dlblas.bmm(other, other, out=twice)
    assert torch.equal(base, before) and not twice.any()


def test_an_out_beside_its_inputs_in_one_memory() -> None:
    """Heads of one projection, and slices of a cache: disjoint elements, overlapping address
    ranges."""
    torch = pytest.importorskip("torch")
    fused = torch.randn(2, 5, 3, 4, 8)
    q, _, v = (fused[:, :, i].transpose(1, 2) for i in range(3))
    weight = torch.randn(2, 4, 8, 8)
    wanted = q @ weight
    assert dlblas.bmm(q, weight, out=v) is v
    torch.testing.assert_close(v, wanted, rtol=1e-4, atol=1e-4)
    lines = torch.randn(2, 3, 7, 16, 16).transpose(0, 1)
    a, out = lines[..., 2:5, :, :8], lines[..., 2:5, :, 8:]
    wanted = a @ a[..., :8, :]
    assert dlblas.bmm(a, a[..., :8, :].clone(), out=out) is out
    torch.testing.assert_close(out, wanted, rtol=1e-4, atol=1e-4)
    turned = random(4, 3, 6, 6)[::-1, ::2]  # steps back
    dlblas.bmm(turned, turned, out=turned.copy())
    meta = torch.empty(3, 2, 4, 5, device="meta").transpose(0, 1)  # no memory: nothing to compare
    assert dlblas.bmm(meta, meta.mT, out=torch.empty(2, 3, 4, 4, device="meta")).is_meta


def batches(torch: Any) -> list[tuple[Any, Any]]:
    """a and b in various layouts, all of them leaves."""
    draw = torch.randn
    made = [
        (draw(3, 4, 5), draw(3, 5, 6)),
        (draw(2, 3, 4, 5), draw(2, 3, 6, 5).mT),
        (draw(3, 2, 4, 5).transpose(0, 1), draw(1, 3, 5, 6).expand(2, 3, 5, 6)),
        (draw(3, 4, 5), draw(5, 6).expand(3, 5, 6)),
        (draw(2, 4, 5).mT.contiguous().mT, draw(5, 6)),
        (draw(0, 4, 5), draw(0, 5, 6)),
        (draw(2, 4, 0), draw(2, 0, 6)),
    ]
    return [(a.detach().requires_grad_(), b.detach().requires_grad_()) for a, b in made]


@pytest.mark.parametrize("activation", ["", "relu", "leaky_relu", "gelu", "silu"])
def test_gradients_are_torchs(activation: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    for a, b in batches(torch):
        bias = torch.randn(6, requires_grad=True)
        y = dlblas.bmm(a, b, activation, bias=bias)
        weights = torch.randn_like(y)
        made = torch.autograd.grad(y, (a, b, bias), weights)
        wide = [t.detach().double().requires_grad_() for t in (a, b, bias)]
        wanted = wide[0] @ wide[1] + wide[2]
        if activation:
            wanted = getattr(torch.nn.functional, activation)(wanted)
        theirs = torch.autograd.grad(wanted, wide, weights.double())
        for mine, its in zip(made, theirs, strict=True):
            torch.testing.assert_close(mine.double(), its, rtol=1e-4, atol=1e-5)
        one = dlblas.bmm(a.detach(), b, activation)  # of b alone
        assert torch.autograd.grad(one.sum(), [b])[0].shape == b.shape


def test_gradients_of_the_operators() -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(s, requires_grad=True) for s in ((2, 3, 4), (2, 4, 5)))
    torch.library.opcheck(torch.ops.dlblas.batched_matmul.default, (a, b))
    turned = b.detach().mT.contiguous().requires_grad_()
    torch.library.opcheck(torch.ops.dlblas.batched_matmul_nt.default, (a, turned))
    graph = torch.compile(dlblas.bmm, fullgraph=True, backend="aot_eager", dynamic=True)
    made = torch.autograd.grad(graph(a, b).square().sum(), (a, b))
    wanted = torch.autograd.grad((a @ b).square().sum(), (a, b))
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(errors.ArgumentError, match="requires grad"):
        dlblas.bmm(a, b, out=torch.empty(2, 3, 5))


@pytest.mark.parametrize("missing", ["a", "b"])
def test_none_is_no_matrix(missing: str) -> None:
    given: dict[str, Any] = {"a": random(2, 3, 4), "b": random(2, 4, 5), missing: None}
    with pytest.raises(errors.ArgumentTypeError, match=f"bmm: {missing} is no array"):
        dlblas.bmm(**given)


@pytest.mark.parametrize("function", [dlblas.bmm, dlblas.matmul])
@pytest.mark.parametrize("sizes", [(1, 8, 6), (2, 8, 6), (8, 6)])
def test_a_spec_is_no_matrix(function: Any, sizes: tuple[int, ...]) -> None:
    b = dlblas.Spec(sizes, "f32")
    for a in (np.zeros((2, 4, 8), "f4"), np.zeros((4, 2, 8), "f4").swapaxes(0, 1)):
        for out in (None, np.ones((2, 4, 6), "f4")):
            with pytest.raises(errors.Error, match=r"Spec|leading dimensions"):
                function(a, b, out=out)
            assert out is None or (out == 1).all()


def test_the_form_does_not_depend_on_earlier_calls() -> None:
    """Rows at several strides: the first torch call of a process is the batched product too."""
    run = (
        "import dlblas, torch\n"
        "a, b = torch.randn(3, 5, 6).transpose(0, 1), torch.randn(6, 8)\n"
        "for _ in range(3):\n"
        "    with dlblas.autotune(seconds=0) as session: dlblas.matmul(a, b)\n"
        "    print('batched_matmul' in {one.op for one in session.missed})\n"
        "    torch.ops.dlblas.matmul(a, b)\n"
    )
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 3
