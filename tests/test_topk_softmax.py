"""topk_softmax and topk_sigmoid: their order and their judge, on crafted rows; eager, compiled and
as a fake in torch.

Read next: ops/moe/topk_ref.hpp, tests/test_grouped_topk.py, tests/test_torch_ops.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentError

OPS = ("topk_softmax", "topk_sigmoid")
# 1, a value that f32's softmax cannot tell from it, and values far from both.
NEAR = np.array([[1.0, np.nextafter(np.float32(1), 2), 0.5, 1.0, -3.0, 0.25]], np.float32)


def implementations(op: str) -> list[str]:
    """The implementations that run here, on the CPU."""
    rows = dlblas.explain(op, NEAR, 2).as_dict()["candidates"]
    return [row["implementation"] for row in rows if row["supports"]]


PINS = [(op, name) for op in OPS for name in implementations(op)]


@pytest.fixture(params=PINS, ids=lambda pin: ".".join(pin))
def op(request: pytest.FixtureRequest) -> Any:
    """An operator, pinned to each of its implementations."""
    name, implementation = request.param
    with dlblas.pinned(name, implementation):
        yield name


def run(op: str, x: Any, topk: int, renormalize: bool = True) -> tuple[Any, Any]:
    return getattr(dlblas, op)(x, topk, renormalize)  # type: ignore[no-any-return]


def gates_of(op: str, x: Any) -> Any:
    """The values of softmax or the logistic function, in f64."""
    x = x.astype(np.float64)
    if op == "topk_sigmoid":
        return 1 / (1 + np.exp(-x))
    power = np.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def test_equal_logits_go_to_the_lower_expert(op: str) -> None:
    for width in (5, 64, 300, 5000):
        x = np.zeros((4, width), np.float32)
        x[1, 3::2] = 1
        x[2, 1::2] = -np.inf
        x[3, [1, 4]] = -0.0
        _, ids = run(op, x, 4)
        np.testing.assert_array_equal(ids[0], [0, 1, 2, 3])
        np.testing.assert_array_equal(ids[1], [3, 0, 1, 2] if width == 5 else [3, 5, 7, 9])
        np.testing.assert_array_equal(ids[2], [0, 2, 4, 1] if width == 5 else [0, 2, 4, 6])
        np.testing.assert_array_equal(ids[3], [0, 1, 2, 3])


def test_nan_ranks_above_all(op: str) -> None:
    x = np.arange(40, dtype=np.float32).reshape(2, 20)
    x[0, [7, 2]] = np.nan
    x[0, 11] = np.inf
    weights, ids = run(op, x, 5)
    np.testing.assert_array_equal(ids, [[2, 7, 11, 19, 18], [19, 18, 17, 16, 15]])
    assert np.isnan(weights[0]).all() and np.isfinite(weights[1]).all()


def test_order_is_that_of_the_logits(op: str) -> None:
    _, ids = run(op, NEAR, 6)
    np.testing.assert_array_equal(ids[0], [1, 0, 3, 2, 5, 4])


@pytest.mark.parametrize("renormalize", [True, False])
def test_weights(op: str, renormalize: bool) -> None:
    x = np.random.default_rng(0).standard_normal((50, 61)).astype(np.float32)
    weights, ids = run(op, x, 7, renormalize)
    gates = np.take_along_axis(gates_of(op, x), ids, -1)
    want = gates / gates.sum(-1, keepdims=True) if renormalize else gates
    np.testing.assert_allclose(weights, want, rtol=3e-6)
    np.testing.assert_array_equal(ids, np.argsort(-x, -1, kind="stable")[:, :7])
    assert ids.dtype == np.int32 and weights.dtype == np.float32


def verdict(op: str, x: Any, ids: list[int], weights: Any = None, renormalize: bool = True) -> Any:
    made = gates_of(op, x)[0][np.clip(ids, 0, x.shape[1] - 1)]
    made = made / made.sum() if renormalize else made
    made = made if weights is None else weights
    out = np.asarray(made, np.float32)[None], np.array([ids], np.int32)
    return dlblas.verify(op, (x, len(ids), renormalize), out)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("renormalize", [True, False])
def test_what_the_judge_takes_and_refuses(op: str, renormalize: bool) -> None:
    def ask(ids: list[int]) -> Any:
        return verdict(op, NEAR, ids, renormalize=renormalize)

    assert ask([1, 0, 3]).ok
    assert ask([0, 1, 3]).ok, "gates that f32 cannot tell apart"
    assert ask([0, 3, 1]).ok
    for ids, first in (
        ([1, 3, 0], 1),  # equal logits, from the higher expert
        ([3, 1, 0], 0),
        ([1, 1, 0], 1),  # twice
        ([1, 0, 6], 2),  # none
        ([-1, 0, 3], 0),
        ([1, 0, 2], 2),  # another gate
        ([2, 1, 0], 0),
    ):
        found = ask(ids)
        assert not found.ok and found.wrong > 0, ids
        if found.result == 1:
            assert found.first_wrong == first, (ids, found)


@pytest.mark.parametrize("op", OPS)
def test_the_judge_looks_at_the_weights_of_what_was_chosen(op: str) -> None:
    x = np.array([[2.0, 1.0, 0.0, -1.0]], np.float32)
    gates = gates_of(op, x)[0][:2]
    right = gates / gates.sum()
    assert verdict(op, x, [0, 1], right).ok
    for wrong in (right[::-1], right * 1.00001, right * [1, 0], [np.nan, right[1]], [0.5, 0.5]):
        found = verdict(op, x, [0, 1], wrong)
        assert not found.ok and found.result == 0, wrong
    assert verdict(op, x, [0, 1], gates, renormalize=False).ok
    assert not verdict(op, x, [0, 1], right, renormalize=False).ok


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("topk", [1, 2, 8])
def test_right_results_spoiled_are_refused(op: str, topk: int) -> None:
    """In a batch of rows: one wrong weight, one wrong expert, swapped rows, a stale last row."""
    x = np.random.default_rng(3).standard_normal((33, 64)).astype(np.float32)
    right = run(op, x, topk, False)
    assert dlblas.verify(op, (x, topk, False), right).ok

    def refused(spoil: Any) -> bool:
        weights, ids = (result.copy() for result in right)
        spoil(weights, ids)
        return not dlblas.verify(op, (x, topk, False), (weights, ids)).ok

    def swap(weights: Any, ids: Any) -> None:
        weights[[4, 5]], ids[[4, 5]] = weights[[5, 4]], ids[[5, 4]]

    def stale(weights: Any, ids: Any) -> None:
        weights[-1], ids[-1] = weights[0], ids[0]

    def weight(weights: Any, ids: Any) -> None:
        weights[17, -1] *= 1.00001

    def expert(weights: Any, ids: Any) -> None:
        ids[17, -1] = (set(range(64)) - {*ids[17].tolist()}).pop()

    for spoil in (swap, stale, weight, expert):
        assert refused(spoil), spoil.__name__


@pytest.mark.parametrize("op", OPS)
def test_zeros_and_a_constant_are_refused(op: str) -> None:
    x = np.random.default_rng(1).standard_normal((9, 16)).astype(np.float32)
    for ids in (0, 3, -1, 2**31 - 1):
        out = np.full((9, 2), 0.5, np.float32), np.full((9, 2), ids, np.int32)
        found = dlblas.verify(op, (x, 2), out)
        assert found.wrong >= 18


@pytest.mark.parametrize("op", OPS)
def test_how_many(op: str) -> None:
    x = np.zeros((3, 100), np.float32)
    with pytest.raises(ArgumentError, match="topk is too large; expected at most 100 experts"):
        run(op, x, 101)
    with pytest.raises(ArgumentError, match="topk is too large; expected at most 4 experts"):
        run(op, x[:, :4], 5)
    assert run(op, x, 0)[0].shape == (3, 0)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("topk", [2**70, -(2**70)])
def test_a_number_beyond_64_bits(op: str, topk: int) -> None:
    """torch has its own message for it, which names no argument."""
    x = np.zeros((3, 100), np.float32)
    torch = pytest.importorskip("torch")
    for array in (x, torch.from_numpy(x)):
        with pytest.raises(ArgumentError, match="topk is too large; expected a 64-bit integer"):
            run(op, array, topk)
    places = torch.empty(3, 2), torch.empty(3, 2, dtype=torch.int32)
    with pytest.raises(ArgumentError, match="topk is too large; expected a 64-bit integer"):
        getattr(dlblas, op)(torch.from_numpy(x), topk, out=places)


@pytest.mark.parametrize(("experts", "topk"), [(64, 64), (65, 65), (257, 257), (1000, 129)])
@pytest.mark.parametrize("op", OPS)
def test_as_many_as_there_are(op: str, experts: int, topk: int) -> None:
    """With ties: one row has a third of equal values, one a NaN, one few distinct values."""
    x = np.random.default_rng(5).standard_normal((4, experts)).astype(np.float32)
    x[0, ::3], x[1, 5], x[2] = 0, np.nan, np.round(x[2])
    weights, ids = run(op, x, topk)
    order = np.argsort(-np.where(np.isnan(x), np.inf, x), axis=1, kind="stable")
    assert (ids == order[:, :topk]).all()
    assert dlblas.verify(op, (x, topk), (weights, ids)).wrong == 0


def test_in_torch() -> None:
    torch = pytest.importorskip("torch")
    import dlblas.torch

    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device in devices:
        x = torch.randn(2, 5, 48, device=device)
        weights, ids = torch.ops.dlblas.topk_softmax(x, 6, False)
        want = torch.softmax(x.double(), -1).topk(6)
        torch.testing.assert_close(weights, want.values.float())
        torch.testing.assert_close(ids, want.indices.int())
        torch.library.opcheck(torch.ops.dlblas.topk_softmax.default, (x, 6, True))
        out = torch.empty_like(weights), torch.empty_like(ids)
        torch.library.opcheck(torch.ops.dlblas.topk_softmax_out.default, (x, 6, *out, True))
        meta = torch.ops.dlblas.topk_softmax(x.to("meta"), 6, True)
        assert [t.shape for t in meta] == [(2, 5, 6)] * 2
        assert [t.dtype for t in meta] == [torch.float32, torch.int32]

        def gate(x: Any) -> Any:
            weights, ids = dlblas.topk_softmax(x * 2, 3)
            return weights + 1, ids

        compiled = torch.compile(gate, backend="aot_eager", fullgraph=True, dynamic=True)
        for got, right in zip(compiled(x), gate(x), strict=True):
            torch.testing.assert_close(got, right)
