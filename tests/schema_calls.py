"""Calls of operators whose schemas use the features in tests/schemas.txt: sizes as arguments,
dimensions that may be 1, numbers for 0-d tensors, in-place forms that receive some of the results,
operators without results, pools. On NumPy arrays and torch tensors, eager and compiled.

The operators stay for the process: test_schemas.py runs this file in one of its own.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentError, ShapeMismatchError

torch = pytest.importorskip("torch")
testing = pytest.importorskip("torch._dynamo.testing")


def top(x: Any, topk: int) -> Any:
    return np.sort(x, -1)[:, ::-1][:, :topk]


def scaled(x: Any, s: Any, g: Any) -> Any:
    return x * np.repeat(s, 1 if s.shape[1] == 1 else 4, 1)[:, : x.shape[1]] * g


def quant(x: Any, residual: Any) -> Any:
    h = x + residual
    s = np.abs(h).max(-1) / 127
    return np.rint(h / s[:, None]), s, h


def store(k: Any, cache: Any, slots: Any) -> Any:
    after = cache.copy()
    after[slots] = k
    return after


def pooled(x: Any, pool: Any, table: Any, cap: float) -> Any:
    y = x + pool[table].sum(1)
    return np.minimum(y, cap) if cap else y


dlblas.register_operator(
    "p_top(x: f[T, E], topk: dim) -> y: f32[T, topk] where T: bucket(tokens)", top
)
dlblas.register_operator(
    "p_scaled(x: f[M, K], s: f32[1|M, 1|K/4], g: f32[]) -> y: like(x)[M, K]", scaled
)
dlblas.register_operator(
    "p_quant(x: f[T, C], residual: like(x)[T, C]) -> (q: i8[T, C], s: f32[T], h: like(x)[T, C])",
    quant, inplace="p_quant_(x, residual!h)",
)  # fmt: skip
dlblas.register_operator(
    "p_store(k: f[T, C], cache: like(k)[S, C]!, slots: i32[T] ~ index<S) -> ()", store
)
dlblas.register_operator(
    "p_pooled(x: f[B, C], pool: f[P, C], table: i32[B, W] ~ index<P, cap: float = 0 key(set=3)) "
    "-> y: f32[B, C] where B: bucket(tokens), P: free(B*W)", pooled,
)  # fmt: skip


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compiled(call: Any, dynamic: bool | None = None) -> Any:
    return torch.compile(call, backend="eager", fullgraph=True, dynamic=dynamic)


# ---- sizes as arguments ------------------------------------------------


def test_a_size_is_an_argument() -> None:
    x = array(5, 8)
    np.testing.assert_array_equal(dlblas.p_top(x, 3), top(x, 3))
    tensor = torch.from_numpy(x)
    for call in (dlblas.p_top, torch.ops.dlblas.p_top, compiled(lambda x, k: dlblas.p_top(x, k))):
        assert tuple(call(tensor, 2).shape) == (5, 2)
    moving = compiled(lambda x, k: dlblas.p_top(x, k) + 1, dynamic=True)
    for rows, k in ((5, 2), (6, 3), (7, 4)):
        got = moving(torch.from_numpy(array(rows, 8)), k)
        np.testing.assert_allclose(got.numpy(), top(array(rows, 8), k) + 1)
    counted = testing.CompileCounter()

    def half(x: Any) -> Any:
        return dlblas.p_top(x, (x.shape[0] + 1) // 2)  # a size out of sizes stays symbolic

    once = torch.compile(half, backend=counted, fullgraph=True, dynamic=True)
    for rows in (5, 8, 12):
        assert tuple(once(torch.from_numpy(array(rows, 8))).shape) == (rows, (rows + 1) // 2)
    assert counted.frame_count == 1
    result = torch.library.opcheck(torch.ops.dlblas.p_top.default, (tensor, 3))
    assert set(result.values()) == {"SUCCESS"}


def test_a_wrong_size_is_refused_in_words() -> None:
    with pytest.raises(ArgumentError, match=r"topk has a wrong value; expected a size from 0"):
        dlblas.p_top(array(5, 8), -1)
    with pytest.raises(ArgumentError, match=r"topk has a wrong value; expected a size from 0"):
        torch.ops.dlblas.p_top(torch.empty(5, 8, device="meta"), -1)
    with pytest.raises(ShapeMismatchError, match=r"y would have too many elements"):
        dlblas.p_top(array(5, 8), 1 << 56)
    with pytest.raises(ShapeMismatchError, match=r"out has size 4 in dimension 1; .* topk = 3"):
        dlblas.p_top(array(5, 8), 3, out=array(5, 4))


# ---- dimensions that may be 1, numbers for f32[] -----------------------


@pytest.mark.parametrize("shape", [(6, 3), (1, 3), (6, 1), (1, 1)])
def test_scales_may_be_one_for_all(shape: tuple[int, int]) -> None:
    x, s = array(6, 10), array(*shape, seed=1)
    expected = scaled(x, s, 0.5)
    ways = {
        "numpy": dlblas.p_scaled(x, s, np.float32(0.5).reshape(())),
        "one": dlblas.p_scaled(x, s, np.full(1, 0.5, np.float32)),
        "number": dlblas.p_scaled(x, s, 0.5),
    }
    tensors = (torch.from_numpy(x), torch.from_numpy(s))
    ways["torch"] = dlblas.p_scaled(*tensors, 0.5).numpy()
    ways["compiled"] = compiled(lambda x, s: dlblas.p_scaled(x, s, 0.5))(*tensors).numpy()
    for way, got in ways.items():
        np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=way)
    with pytest.raises(ShapeMismatchError, match="expected 1 or M = 6 from x"):
        dlblas.p_scaled(x, array(2, 3), 0.5)


def test_whole_numbers_are_numbers_and_texts_are_not() -> None:
    x, s = array(6, 10), array(1, 1)
    np.testing.assert_allclose(dlblas.p_scaled(x, s, 2), scaled(x, s, 2))
    for wrong in ("two", True):
        with pytest.raises(ArgumentError, match="g is not a tensor"):
            dlblas.p_scaled(x, s, wrong)


# ---- in-place forms that receive a part of the results -----------------


def check_quant(form: Any, x: Any, residual: Any) -> None:
    q, s, h = quant(np.asarray(x, np.float64), np.asarray(residual, np.float64))
    got = form(x, residual)
    assert len(got) == 2
    np.testing.assert_array_equal(np.asarray(got[0]), q)
    np.testing.assert_allclose(np.asarray(got[1]), s, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(residual), h, rtol=1e-6)


def test_the_other_results_are_returned() -> None:
    check_quant(dlblas.p_quant_, array(6, 10), array(6, 10, seed=1))
    for form in (
        dlblas.p_quant_,
        torch.ops.dlblas.p_quant_,
        compiled(lambda x, r: dlblas.p_quant_(x, r)),
    ):
        check_quant(form, torch.from_numpy(array(6, 10)), torch.from_numpy(array(6, 10, seed=1)))
    schema = str(torch.ops.dlblas.p_quant_.default._schema)
    assert schema == "dlblas::p_quant_(Tensor x, Tensor(a!) residual) -> (Tensor, Tensor)"


def test_out_takes_the_other_results() -> None:
    for make in (np.asarray, torch.from_numpy):
        x, residual = make(array(6, 10)), make(array(6, 10, seed=1))
        out = (make(np.zeros((6, 10), np.int8)), make(np.zeros(6, np.float32)))

        def form(x: Any, residual: Any, out: Any = out) -> Any:
            assert dlblas.p_quant_(x, residual, out=out) is out
            return out

        check_quant(form, x, residual)
    x, residual = torch.from_numpy(array(6, 10)), torch.from_numpy(array(6, 10, seed=1))
    q, s = torch.zeros(6, 10, dtype=torch.int8), torch.zeros(6)
    assert torch.ops.dlblas.p_quant__out(x, residual, q, s) is None
    np.testing.assert_array_equal(q.numpy(), quant(array(6, 10), array(6, 10, seed=1))[0])
    with pytest.raises(ArgumentError, match=r"p_quant_: out has the wrong number of arrays"):
        dlblas.p_quant_(array(6, 10), array(6, 10), out=(np.zeros(1),) * 3)


@pytest.mark.parametrize("name", ["p_quant", "p_quant_", "p_quant_out", "p_quant__out"])
def test_partial_forms_pass_opcheck(name: str) -> None:
    arguments = [torch.from_numpy(array(6, 10)), torch.from_numpy(array(6, 10, seed=1))]
    if name.endswith("_out"):
        arguments += [torch.zeros(6, 10, dtype=torch.int8), torch.zeros(6)]
        arguments += [torch.zeros(6, 10)] * (name == "p_quant_out")
    result = torch.library.opcheck(getattr(torch.ops.dlblas, name).default, tuple(arguments))
    assert set(result.values()) == {"SUCCESS"}


# ---- operators without results -----------------------------------------


def test_an_operator_without_results_writes_what_it_is_given() -> None:
    k, slots = array(3, 8), np.array([4, 0, 2], np.int32)
    expected = store(k, np.zeros((6, 8), np.float32), slots)
    cache = np.zeros((6, 8), np.float32)
    assert dlblas.p_store(k, cache, slots) is None
    np.testing.assert_array_equal(cache, expected)
    for form in (dlblas.p_store, torch.ops.dlblas.p_store, compiled(lambda *a: dlblas.p_store(*a))):
        held = torch.zeros(6, 8)
        assert form(torch.from_numpy(k), held, torch.from_numpy(slots)) is None
        np.testing.assert_array_equal(held.numpy(), expected)
    assert not hasattr(torch.ops.dlblas, "p_store_out")
    schema = str(torch.ops.dlblas.p_store.default._schema)
    assert schema == "dlblas::p_store(Tensor k, Tensor(a!) cache, Tensor slots) -> ()"
    arguments = (torch.from_numpy(k), torch.zeros(6, 8), torch.from_numpy(slots))
    result = torch.library.opcheck(torch.ops.dlblas.p_store.default, arguments)
    assert set(result.values()) == {"SUCCESS"}
    nothing = np.zeros((0, 8), np.float32)
    dlblas.p_store(nothing, cache, slots[:0])
    np.testing.assert_array_equal(cache, expected)
    with pytest.raises(ArgumentError, match="out"):
        dlblas.p_store(k, cache, slots, out=cache)


# ---- pools and the tuner -----------------------------------------------


def test_a_pool_of_any_size_is_one_key_and_is_tuned_small() -> None:
    def numpy_pooled(x: Any, pool: Any, table: Any, cap: float, y: Any) -> None:
        assert len(pool) <= 4096  # the tuner makes what `free` says, not the caller's million
        y[...] = pooled(x, pool, table, cap)

    dlblas.register("p_pooled", "whole", numpy_pooled)
    table = np.zeros((5, 3), np.int32)
    spec = dlblas.Spec((1 << 40, 8), "f32")  # no memory holds it
    report = dlblas.tune("p_pooled", (array(5, 8), spec, table), seconds=1)
    assert report["winner"]["implementation"] == "whole", report
    for cap in (0.0, 2.0):
        report = dlblas.tune("p_pooled", (array(5, 8), spec, table, cap), seconds=1)
        assert report["winner"]["implementation"] == "whole", report
    problems = {
        dlblas.explain("p_pooled", array(5, 8), array(n, 8), table, cap).as_dict()["problem"]
        for n in (20, 50)
        for cap in (2.0, 4.0)
    }
    assert len(problems) == 1 and problems.pop().startswith("[B=8 C=8 W=3] ")
    for n in (20, 50):
        explained = dlblas.explain("p_pooled", array(5, 8), array(n, 8), table, 7.0).as_dict()
        assert (explained["implementation"], explained["source"]) == ("whole", "store")


def test_sizes_and_ones_are_tuned() -> None:
    def whole_top(x: Any, topk: int, y: Any) -> None:
        y[...] = top(x, topk)

    def whole_scaled(x: Any, s: Any, g: Any, y: Any) -> None:
        y[...] = scaled(x, s, g)

    dlblas.register("p_top", "whole", whole_top)
    dlblas.register("p_scaled", "whole", whole_scaled)
    for name, arguments in {
        "p_top": (array(5, 8), 3),
        "p_scaled": (array(6, 10), array(1, 3), 0.5),
    }.items():
        report = dlblas.tune(name, arguments, seconds=1)
        rows = {row["implementation"]: row for row in report["evaluated"]}
        assert report["winner"]["implementation"] == "whole" and not rows["whole"].get("failure"), (
            rows
        )


def wide(*arrays: Any) -> Any:
    """f64 copies, as the oracle uses: computed in f32, a code of q may differ by one."""
    return (a.astype(np.float64) for a in arrays)


def checked_top(x: Any, topk: int, y: Any) -> None:
    y[...] = top(*wide(x), topk)


def checked_scaled(x: Any, s: Any, g: Any, y: Any) -> None:
    y[...] = scaled(*wide(x, s, g))


def checked_quant(x: Any, residual: Any, q: Any, s: Any, h: Any) -> None:
    q[...], s[...], h[...] = quant(*wide(x, residual))


def checked_store(k: Any, cache: Any, slots: Any) -> None:
    cache[slots] = k


CHECKED = {
    "p_top": checked_top,
    "p_scaled": checked_scaled,
    "p_quant": checked_quant,
    "p_store": checked_store,
}


def test_the_harness_makes_sizes_and_ones() -> None:
    from dlblas.harness import expand, load_registry, run_group

    dims = {"M": 6, "K": 10}
    dlblas.register_operator(
        "p_scaled(x: f[M, K], s: f32[1|M, 1|K/4], g: f32[]) -> y: like(x)[M, K]", scaled,
        cases=[{"name": "both", "dims": dims, "dtypes": ["f32"], "use": ["test"],
                "layouts": ["contiguous", "ones", "ones_s", "row_strided"]}],
    )  # fmt: skip
    for op, function in CHECKED.items():
        dlblas.register(op, "checked", function)
    registry = load_registry()
    for op in CHECKED:
        cases = [case for case in expand(registry) if case.op == op]
        assert len(cases) >= 4
        outcomes = run_group(registry, cases, "checked", 0)
        assert {o.status for o in outcomes} <= {"passed", "skipped"}, outcomes
        assert sum(o.status == "passed" for o in outcomes) >= 4, outcomes
