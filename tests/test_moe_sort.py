"""moe_align, moe_sort, moe_permute and moe_unpermute: ids that name no expert, order, and the round
trip.

Every test runs on the CPU and, where there is one, on a GPU. Read next: ops/moe/sort/sort.cuh,
ops/moe/moe_align/moe_align_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
import numpy as np  # noqa: E402
from torch_gradients import every_device  # noqa: E402, F401


def draw(tokens: int, topk: int, experts: int, device: str, dropped: float = 0.3) -> Any:
    """Random ids, some of which name no expert: −1 and others."""
    ids = torch.randint(0, experts, (tokens, topk), device=device, dtype=torch.int32)
    none = torch.tensor([-1, -7, experts, 2**31 - 1], device=device, dtype=torch.int32)
    spoilt = none[torch.randint(0, 4, ids.shape, device=device)]
    return torch.where(torch.rand(ids.shape, device=device) < dropped, spoilt, ids)


def groups_of(ids: Any, experts: int) -> list[list[int]]:
    flat = ids.reshape(-1).tolist()
    return [[i for i, e in enumerate(flat) if e == expert] for expert in range(experts)]


SIZES = [(1, 1, 1), (7, 3, 5), (130, 2, 64), (300, 8, 33), (700, 2, 3), (40, 4, 1100)]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("block", [1, 3, 16, 128])
@pytest.mark.parametrize(("tokens", "topk", "experts"), SIZES)
def test_align(tokens: int, topk: int, experts: int, block: int, dtype: Any, device: str) -> None:
    ids = draw(tokens, topk, experts, device).to(dtype)
    sorted_ids, expert_ids, num_padded = dlblas.moe_align(ids, experts, block)
    want: list[int] = []
    owners: list[int] = []
    for expert, group in enumerate(groups_of(ids, experts)):
        blocks = -(-len(group) // block)
        want += group + [tokens * topk] * (blocks * block - len(group))
        owners += [expert] * blocks
    assert num_padded.tolist() == [len(want)]
    assert sorted_ids.shape == (tokens * topk + experts * block,)
    assert sorted_ids.tolist() == want + [tokens * topk] * (len(sorted_ids) - len(want))
    assert expert_ids.tolist() == owners + [-1] * (len(expert_ids) - len(owners))


def test_high_words_of_wide_ids_count(device: str) -> None:
    ids = torch.tensor([[2**32 + 1, 1, -(2**32) + 1, 0]], device=device)
    sorted_ids, _, num_padded = dlblas.moe_align(ids, 2, 1)
    assert num_padded.item() == 2 and sorted_ids.tolist() == [3, 1, 4, 4, 4, 4]


def test_ids_that_do_not_fit_write_nowhere(device: str) -> None:
    ids = torch.full((64, 8), 2**31 - 1, device=device, dtype=torch.int32)
    for spoilt in (ids, -ids, ids.long() * 2**20):
        sorted_ids, expert_ids, num_padded = dlblas.moe_align(spoilt, 16, 4)
        assert num_padded.item() == 0
        assert (sorted_ids == 512).all() and (expert_ids == -1).all()
        assert (dlblas.moe_sort(spoilt, 16)[0] == -1).all()
        rows, offsets, inverse = dlblas.moe_permute(torch.ones(64, 8, device=device), spoilt, 16)
        assert (offsets == 0).all() and (inverse == -1).all() and rows.shape == (512, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("width", [1, 24, 130])
@pytest.mark.parametrize(("tokens", "topk", "experts"), SIZES)
def test_permute(tokens: int, topk: int, experts: int, width: int, dtype: Any, device: str) -> None:
    ids = draw(tokens, topk, experts, device)
    x = (100 * torch.randn(tokens, width, device=device)).clamp(-120, 120).to(dtype)
    rows, offsets, inverse = dlblas.moe_permute(x, ids, experts)
    groups = groups_of(ids, experts)
    flat = [i for group in groups for i in group]
    ends = torch.tensor([0, *(len(group) for group in groups)]).cumsum(0)
    assert offsets.tolist() == ends.tolist()
    assert torch.equal(rows[: len(flat)], x[[i // topk for i in flat]])
    want = torch.full((tokens * topk,), -1, dtype=torch.int32)
    want[flat] = torch.arange(len(flat), dtype=torch.int32)
    assert torch.equal(inverse.cpu(), want.view(tokens, topk))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("tokens", "topk", "experts"), SIZES)
def test_sort_lists_what_permute_copies(
    tokens: int, topk: int, experts: int, dtype: Any, device: str
) -> None:
    ids = draw(tokens, topk, experts, device).to(dtype)
    x = torch.arange(tokens, device=device).float()[:, None]
    copied, *wanted = dlblas.moe_permute(x, ids, experts)
    rows, offsets, inverse = dlblas.moe_sort(ids, experts)
    assert rows.dtype is torch.int32 and rows.shape == (tokens * topk,)
    used = int(offsets[-1])
    assert torch.equal(rows[:used], copied[:used, 0].int()) and (rows[used:] == -1).all()
    assert torch.equal(offsets, wanted[0]) and torch.equal(inverse, wanted[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("tokens", "topk", "experts"), SIZES)
def test_there_and_back(tokens: int, topk: int, experts: int, dtype: Any, device: str) -> None:
    ids = draw(tokens, topk, experts, device)
    x = torch.randn(tokens, 72, device=device).to(dtype)
    weights = torch.rand(tokens, topk, device=device)
    rows, _, inverse = dlblas.moe_permute(x, ids, experts)
    y = dlblas.moe_unpermute(rows, inverse, weights)
    there = (ids >= 0) & (ids < experts)
    want = x.double() * (weights.double() * there).sum(1, keepdim=True)
    torch.testing.assert_close(y, want.to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=1e-5)
    assert (y[~there.any(1)] == 0).all()


def test_rows_that_are_not_named_are_not_read(device: str) -> None:
    rows = torch.full((6, 40), torch.nan, device=device)
    rows[2] = 1
    beyond = (6, 2**31 - 1) if device == "cuda" else (-6, -(2**31))  # a CPU refuses these
    inverse = torch.tensor([[2, -1, beyond[0]], [-1, -5, beyond[1]], [2, 2, 2]], device=device)
    for positions in (inverse.int(), inverse):
        y = dlblas.moe_unpermute(rows, positions, torch.full((3, 3), 0.5, device=device))
        assert y[:, 0].tolist() == [0.5, 0.0, 1.5] and torch.equal(y[:, 0], y[:, 39])


def test_a_cpu_refuses_rows_that_are_not_there() -> None:
    rows, weights = torch.ones(6, 40), torch.ones(2, 2)
    for bad in (6, 9):
        inverse = torch.tensor([[0, 1], [5, bad]])
        with pytest.raises(
            dlblas.errors.ArgumentError,
            match=f"inverse is out of bounds at element 3; expected at most 5, got {bad}",
        ):
            dlblas.moe_unpermute(rows, inverse, weights)


def test_the_same_bits_on_any_threads_and_strides() -> None:
    from dlblas.harness import abi

    ids = draw(9000, 4, 40, "cpu").numpy()
    first = None
    for threads in (1, 2, 3, 16):
        out = [np.empty(36000 + 320, np.int32), np.empty(4540, np.int32), np.empty(1, np.int32)]
        abi.call("moe_align", {"topk_ids": ids, "num_experts": 40, "block": 8}, out, threads)
        bits = [array.tobytes() for array in out]
        assert bits == (first := first or bits)


def test_refusals(device: str) -> None:
    ids = torch.zeros(4, 2, dtype=torch.int32, device=device)
    with pytest.raises(dlblas.errors.Error, match=r"moe_align: .*block of at least 1"):
        dlblas.moe_align(ids, 4, 0)
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        dlblas.moe_permute(torch.ones(3, 8, device=device), ids, 4)
    with pytest.raises(dlblas.errors.UnsupportedDtypeError):
        dlblas.moe_align(ids.float(), 4, 4)


def test_in_torch(device: str) -> None:
    ops = torch.ops.dlblas
    ids, x = draw(12, 3, 5, device, 0.0), torch.randn(12, 16, device=device)
    rows, _, inverse = ops.moe_permute(x, ids, 5)
    weights = torch.rand(12, 3, device=device)
    torch.library.opcheck(ops.moe_align.default, (ids, 5, 8))
    torch.library.opcheck(ops.moe_sort.default, (ids, 5))
    torch.library.opcheck(ops.moe_permute.default, (x, ids, 5))
    torch.library.opcheck(ops.moe_unpermute.default, (rows, inverse, weights))

    def mixture(x: Any) -> Any:
        rows, _, inverse = dlblas.moe_permute(x, ids, 5)
        return dlblas.moe_unpermute(rows * 2, inverse, weights) + 1

    compiled = torch.compile(mixture, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), mixture(x))


def test_tokens_of_a_batch(device: str) -> None:
    """[B, S, C] and [B, S, topk]: the round trip, in torch, traced and in NumPy."""
    ids, x = draw(12, 3, 5, device).view(3, 4, 3), torch.randn(3, 4, 16, device=device)
    weights = torch.rand(3, 4, 3, device=device)
    flat = ids.flatten(0, 1)
    rows, offsets, inverse = dlblas.moe_permute(x.flatten(0, 1), flat, 5)
    want = dlblas.moe_unpermute(rows, inverse, weights.flatten(0, 1))

    def mixture(x: Any, ids: Any, weights: Any) -> Any:
        made = dlblas.moe_permute(x, ids, 5)
        return *made, dlblas.moe_unpermute(made[0], made[2], weights)

    apart = x.transpose(0, 1).contiguous().transpose(0, 1)
    torch._dynamo.reset()
    compiled = torch.compile(mixture, fullgraph=True, backend="aot_eager")
    places = (torch.empty_like(rows), torch.empty_like(offsets), inverse.view(3, 4, 3) * 0)
    assert dlblas.moe_permute(x, ids, 5, out=places) is places
    y = torch.empty(4, 3, 16, device=device).transpose(0, 1)  # no view joins its tokens
    assert dlblas.moe_unpermute(places[0], places[2], weights, out=y) is y
    used = offsets[-1]
    for got in (mixture(x, ids, weights), mixture(apart, ids, weights),
                compiled(x, ids, weights), (*places, y)):  # fmt: skip
        assert got[2].shape == ids.shape and got[3].shape == x.shape
        assert torch.equal(got[0][:used], rows[:used]) and torch.equal(got[1], offsets)
        assert torch.equal(got[2].flatten(0, 1), inverse)
        assert torch.equal(got[3].flatten(0, 1), want)
    for a, b in zip(dlblas.moe_align(ids, 5, 4), dlblas.moe_align(flat, 5, 4), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(dlblas.moe_sort(ids, 5), dlblas.moe_sort(flat, 5), strict=True):
        assert torch.equal(a.reshape(b.shape), b)
    array = dlblas.moe_permute(x.cpu().numpy(), ids.cpu().numpy(), 5)[2]
    np.testing.assert_array_equal(array.reshape(12, 3), inverse.cpu().numpy())
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="topk_ids has other leading dimens"):
        dlblas.moe_permute(x, flat, 5)
