"""grouped_topk: its groups, its order and its judge, on crafted rows.

Read next: ops/moe/grouped_topk/grouped_topk_ref.cpp, test_topk_softmax.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentError

OP = "grouped_topk"


def implementations() -> list[str]:
    """The implementations that run here, on the CPU."""
    x = np.zeros((2, 8), np.float32)
    rows = dlblas.explain(OP, x, None, 2, 4, 2).as_dict()["candidates"]
    return [row["implementation"] for row in rows if row["supports"]]


@pytest.fixture(params=implementations())
def pinned(request: pytest.FixtureRequest) -> Any:
    with dlblas.pinned(OP, request.param):
        yield


def run(x: Any, bias: Any, topk: int, **named: Any) -> tuple[Any, Any]:
    return dlblas.grouped_topk(x, bias, topk, **named)  # type: ignore[no-any-return]


def test_a_group_counts_by_its_best_two(pinned: None) -> None:
    x = np.array([[3.0, -9, -9, 1, 1, -9, 0.5, 0.4, -9]], np.float32)
    _, ids = run(x, None, 2, num_groups=3, topk_groups=1)
    np.testing.assert_array_equal(ids, [[3, 4]])  # not the group of the one best expert
    _, ids = run(x, None, 3, num_groups=3, topk_groups=2)
    np.testing.assert_array_equal(ids, [[3, 4, 6]])


@pytest.mark.parametrize("scoring", ["sigmoid", "softmax"])
def test_equal_scores_go_to_the_lower_number(pinned: None, scoring: str) -> None:
    x = np.zeros((2, 24), np.float32)
    x[1, [9, 10, 21, 22]] = 1
    _, ids = run(x, None, 4, num_groups=6, topk_groups=2, scoring=scoring)
    np.testing.assert_array_equal(ids, [[0, 1, 2, 3], [9, 10, 21, 22]])


def test_the_bias_chooses_and_does_not_weigh(pinned: None) -> None:
    x = np.array([[0.0, 2.0, -1.0, 1.0]], np.float32)
    bias = np.array([5.0, 0, 6.0, 0], np.float32)
    weights, ids = run(x, bias, 2, scale=2.5)
    np.testing.assert_array_equal(ids, [[2, 0]])
    gates = 1 / (1 + np.exp([1.0, 0.0]))
    np.testing.assert_allclose(weights, [2.5 * gates / gates.sum()], rtol=2e-6)
    weights, _ = run(x, bias, 2, renormalize=False)
    np.testing.assert_allclose(weights, [gates], rtol=2e-6)


def test_nan_ranks_above_all(pinned: None) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 16)
    x[0, 5] = np.nan
    weights, ids = run(x, None, 3, num_groups=4, topk_groups=2)
    np.testing.assert_array_equal(ids, [[5, 15, 14]])
    assert np.isnan(weights).all()


def test_no_sum_of_weights_underflows(pinned: None) -> None:
    x = np.full((1, 8), -300.0, np.float32)
    x[0, 3] = -299
    for scoring in ("sigmoid", "softmax"):
        weights, ids = run(x, None, 2, num_groups=2, topk_groups=1, scoring=scoring)
        assert abs(weights.sum() - 1) < 1e-6
        if scoring == "softmax":  # sigmoids of these are all 0 in f32
            np.testing.assert_array_equal(ids, [[3, 0]])
            np.testing.assert_allclose(weights, [[1 / (1 + np.exp(-1)), 1 / (1 + np.e)]], rtol=1e-5)


def test_shared_experts_come_last(pinned: None) -> None:
    x = np.random.default_rng(0).standard_normal((5, 32)).astype(np.float32)
    plain, chosen = run(x, None, 4, num_groups=4, topk_groups=2, scale=2.5)
    weights, ids = run(
        x, None, 4, num_groups=4, topk_groups=2, scale=2.5, num_fused_shared_experts=2
    )
    np.testing.assert_array_equal(ids[:, :4], chosen)
    np.testing.assert_array_equal(weights[:, :4], plain)
    np.testing.assert_array_equal(ids[:, 4:], [[32, 33]] * 5)
    np.testing.assert_allclose(weights[:, 4:], 1, rtol=1e-6)


def verdict(ids: list[int], weights: Any = None) -> Any:
    """The judge's verdict on one row of three groups of two, with softmax."""
    x = np.log(np.array([[0.30, 0.20, 0.15, 0.11, 0.14, 0.10]])).astype(np.float32)
    chosen = np.exp(x.astype(np.float64))[0][np.clip(ids, 0, 5)]
    made = chosen / chosen.sum() if weights is None else weights
    out = np.asarray(made, np.float32)[None], np.array([ids], np.int32)
    return dlblas.verify(OP, (x, None, len(ids), 3, 2, True, 1.0, "softmax"), out)


def test_what_the_judge_takes_and_refuses() -> None:
    assert verdict([0, 1, 2]).ok
    for wrong in (
        [1, 0, 2],  # out of order
        [0, 2, 1],
        [0, 0, 1],  # twice
        [0, 1, 6],  # none
        [0, 1, -1],
        [0, 1, 3],  # a better one of its group is left
        [0, 2, 4],  # of three groups
        [2, 3, 4],  # without the best group
    ):
        found = verdict(wrong)
        assert not found.ok and found.wrong > 0, wrong
    assert not verdict([0, 1, 2], [0.5, 0.3, 0.2]).ok


def test_zeros_and_a_constant_are_refused() -> None:
    x = np.random.default_rng(1).standard_normal((9, 16)).astype(np.float32)
    for ids in (0, 3, -1, 2**31 - 1):
        out = np.full((9, 2), 0.5, np.float32), np.full((9, 2), ids, np.int32)
        assert dlblas.verify(OP, (x, None, 2, 4, 2), out).wrong >= 18


@pytest.mark.parametrize(
    ("argument", "named", "expected"),
    [
        ("num_groups", {"num_groups": 5}, "a divisor of 16 experts"),
        ("num_groups", {"num_groups": 0}, "a divisor of 16 experts"),
        ("topk_groups", {"num_groups": 4, "topk_groups": 5}, "1 … 4 groups"),
        ("topk", {"num_groups": 8, "topk_groups": 1}, "at most 2"),
        ("scale", {"scale": 0.0}, "1e-6 … 1e6"),
        ("scale", {"scale": float("nan")}, "1e-6 … 1e6"),
    ],
)
def test_what_does_not_fit_is_refused(argument: str, named: Any, expected: str) -> None:
    with pytest.raises(ArgumentError, match=expected) as caught:
        run(np.zeros((3, 16), np.float32), None, 3, **named)
    assert caught.value.argument == argument


def test_in_torch() -> None:
    torch = pytest.importorskip("torch")
    import dlblas.torch

    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device in devices:
        x = torch.randn(2, 5, 48, device=device)
        bias = torch.randn(48, device=device)
        arguments = (x, bias, 6, 6, 2, True, 2.5, "sigmoid", 1)
        weights, ids = torch.ops.dlblas.grouped_topk(*arguments)
        assert weights.shape == ids.shape == (2, 5, 7) and ids.dtype is torch.int32
        want, _ = dlblas.grouped_topk(x.cpu().numpy(), bias.cpu().numpy(), *arguments[2:])
        torch.testing.assert_close(weights.cpu(), torch.from_numpy(want))
        torch.library.opcheck(torch.ops.dlblas.grouped_topk.default, arguments)


def test_rows_that_a_warp_holds_stay_in_registers_on_a_gpu() -> None:
    for experts, groups, kept, name in (
        (256, 8, 4, "cuda_lanes"),
        (384, 1, 1, "cuda_lanes"),
        (512, 32, 31, "cuda_lanes"),
        (528, 66, 66, "cuda_warps"),
        (528, 66, 3, "cuda_warps"),  # more groups than lanes
        (1024, 2, 1, "cuda_warps"),
    ):
        x = np.zeros((4096, experts), np.float32)
        found = dlblas.explain(OP, x, None, 8, groups, kept, device="sm_90a").as_dict()
        assert found["implementation"] == name, (experts, groups)
        with dlblas.deterministic():  # one kernel a width, whatever the batch
            rows = dlblas.explain(OP, x, None, 8, groups, kept, device="sm_90a").as_dict()
        serving = [r["implementation"] for r in rows["candidates"] if r["supports"]]
        assert serving == [name]
